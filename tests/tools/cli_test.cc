// The tool as users see it: exit codes, errors of one clear line, and the way from a model to a fast package.
#include <gmock/gmock.h>

#include "archives/npz.h"
#include "frontend/onnx/tensor_pb.h"
#include "package/package.h"
#include "records/open.h"
#include "runtime/npy.h"
#include "support/cpus.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::EventsOf;
using test::FollowsRecords;
using test::kExample;
using test::kExampleData;
using test::Lines;
using test::NameOf;
using test::ReadAll;
using test::TrialsOf;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Cli = test::CliTest;

// Expects one error, and at most one hint below it, that contain all of these words.
void ExpectOneLine(const CliResult& result, const std::vector<std::string>& words, int code = 1) {
  EXPECT_EQ(result.code, code) << result.Text();
  EXPECT_THAT(Lines(result.err),
              AnyOf(ElementsAre(StartsWith("error: ")), ElementsAre(StartsWith("error: "), StartsWith("hint: "))))
      << result.Text();
  EXPECT_THAT(result.Text(), Not(HasSubstr("tuning "))) << "tuning began before the arguments were checked";
  for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
}

TEST_F(Cli, WrongUsageIsExitCode2) {
  for (std::vector<std::string> arguments :
       std::vector<std::vector<std::string>>{{"--bogus"},
                                             {"frobnicate"},
                                             {},
                                             {"tune"},
                                             {"compile", "--model", kExample},
                                             {"--model", kExample, "--trials", "many"},
                                             {"--model", kExample, "--trials", "0"},
                                             {"--model", kExample, "--trials", "-5"},
                                             {"--model", kExample, "--search", "luck"},
                                             {"run", "x.tar", "--repeat", "0"},
                                             {"run", "x.tar", "--threads", "-1"},
                                             {"bench", "x.tar", "--threads", "-1"}}) {
    std::string text;
    for (const std::string& argument : arguments) text += argument + " ";
    CliResult result = Run(arguments);
    EXPECT_EQ(result.code, 2) << text << result.Text();
    EXPECT_FALSE((result.out + result.err).empty()) << text;
  }
  EXPECT_FALSE(std::filesystem::exists(db_)) << "wrong usage must not create a database";
}

TEST_F(Cli, WrongUsageIsOneLineThatNamesWhatWasMeant) {
  ExpectOneLine(Run({"--model", kExample, "--trails", "5"}), {"unknown option --trails", "did you mean --trials?"}, 2);
  ExpectOneLine(Run({"tune", "--modle=" + kExample}), {"--modle", "did you mean --model?"}, 2);
  ExpectOneLine(Run({"compil", "--model", kExample}), {"unknown command 'compil'", "did you mean compile?"}, 2);
  ExpectOneLine(Run({"records", "shwo"}), {"unknown command 'shwo'", "did you mean show?"}, 2);
  ExpectOneLine(Run({"frobnicate"}), {"unknown command 'frobnicate'", "autotune --help"}, 2);
  ExpectOneLine(Run({"run", "a.tar", "b.tar"}), {"unexpected argument 'b.tar'", "autotune run --help"}, 2);
  for (const char* number : {"-3", "0", "many", "1.5", "-99999999999999999999"}) {
    CliResult result = Run({"--model", kExample, "--trials", number});
    ExpectOneLine(result, {"--trials: '" + std::string(number) + "' is not a whole number of 1 or more"}, 2);
    EXPECT_LT(result.err.size(), 120u) << "the error must not print a range of 300 digits";
  }
  ExpectOneLine(Run({"run", "a.tar", "--threads", "-1"}), {"--threads: '-1' is not a whole number of 0 or more"}, 2);
  const int most = MostThreads();
  for (const char* command : {"run", "bench", "explain"}) {
    ExpectOneLine(
        Run({command, "a.tar", "--threads", std::to_string(most + 1)}),
        {"--threads: " + std::to_string(most + 1) + " threads are too many", "at most " + std::to_string(most)}, 2);
    ExpectOneLine(Run({command, "a.tar", "--threads", std::to_string(most)}), {"a.tar"}, 1);  // no such file
  }
  ExpectOneLine(Run({"run", "a.tar", "--output-dir", "/dev/null/x"}), {"--output-dir: cannot create /dev/null/x"});
  ExpectOneLine(Run({"verify", "--package", "a.tar", "--data", kExampleData, "--threads", "100000"}),
                {"--threads: 100000 threads are too many"}, 2);
  ExpectOneLine(Run({"bench", "a.tar", "--streams", "100000"}), {"--streams: 100000 threads are too many"}, 2);
  for (const char* number : {"-1", "nan", "inf", "soon", "1e9"}) {
    ExpectOneLine(Run({"bench", "a.tar", "--seconds", number}),
                  {"--seconds: '" + std::string(number) + "' is not a number of seconds"}, 2);
  }
  for (const char* command : {"compile", "tune"}) {
    ExpectOneLine(Run({command, "--model", kExample, "-o", File("net.zip")}), {"net.zip: name it M.tar"}, 2);
  }
  ExpectOneLine(Run({"tune"}), {"--model", "--op"}, 2);
  ExpectOneLine(Run({"tune", "--model", kExample, "--op", "matmul:1,2,3"}), {"--model", "--op"}, 2);
  ExpectOneLine(Run({"tune", "--op", "matmul:1,2,3", "--shape", "x:1"}), {"--shape", "--op"}, 2);
  for (const std::string option : {"--target=c", "--target=cpu", "--shape=x:1", "--dim=n=1", "--bind=x=x.pb",
                                   "--db=records.db", "--allow-tf32", "--no-winograd", "--precision=bf16"}) {
    const std::string name = option.substr(0, option.find('='));
    ExpectOneLine(Run({"verify", "--package", "m.so", "--data", "d", option}),
                  {"--package is compiled already, so it excludes " + name}, 2);
  }
  // Options of the comparison go together with a package.
  ExpectOneLine(Run({"verify", "--package", "/no/such.so", "--data", kExampleData, "--rtol=1", "--threads=1"}),
                {"/no/such.so"});
}

TEST_F(Cli, Tf32IsForGpusThatHaveIt) {
  const std::string end = " has no tensor cores for TF32; NVIDIA's GPUs have from sm_80 on";
  for (const auto& [target, what] : {std::pair{"cuda -arch=sm_75", "sm_75"}, {"llvm -mcpu=host", "llvm"}}) {
    ExpectOneLine(Run({"compile", "--op", "matmul:16,16,16", "--target", target, "--allow-tf32", "--db",
                       ":memory:", "-o", "m.tar"}),
                  {"--allow-tf32: " + std::string(what) + end}, 1);
  }
}

TEST_F(Cli, HelpIsNoError) {
  for (std::vector<std::string> arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"--help-all"}, {"tune", "--help"}, {"run", "-h"}}) {
    CliResult result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.Text();
    EXPECT_THAT(result.out, HasSubstr("Usage"));
    EXPECT_EQ(result.err, "");
  }
  CliResult version = Run({"--version"});
  EXPECT_EQ(version.code, 0) << version.Text();
  EXPECT_THAT(version.out, AllOf(StartsWith("autotune 0."), HasSubstr("record database "), HasSubstr("traces "),
                                 HasSubstr("wire ")));
  // A command's help shows the example of that command only.
  CliResult help = Run({"run", "--help"});
  EXPECT_THAT(help.out, AllOf(HasSubstr("Example:\n  autotune run "), Not(HasSubstr("autotune verify"))));
  EXPECT_THAT(Run({"tune", "--help"}).out, AllOf(HasSubstr("autotune tune --op"), HasSubstr("conv2d:N,H,W,C;")));
}

TEST_F(Cli, BadInputsAreOneClearLine) {
  std::string garbage = Write("garbage", std::string(3000, '\xa7') + "\n\n\n");
  std::string cut = Write("cut.onnx", test::ReadAll(kExample).substr(0, 5000));
  std::string out = File("out.tar");
  // It waits some seconds for the tracker.
  Subprocess alone = Start({"--model", kExample, "--tracker", File("nobody"), "--key", "pi"}, "alone");
  ExpectOneLine(Run({"--model", "/no/such.onnx"}), {"/no/such.onnx"});
  ExpectOneLine(Run({"compile", "--model", "/no/such.onnx", "-o", out}), {"/no/such.onnx"});
  ExpectOneLine(Run({"compile", "--model", garbage, "-o", out}), {garbage, "ONNX"});
  ExpectOneLine(Run({"compile", "--model", cut, "-o", out}), {cut, "cut short"});
  ExpectOneLine(Run({"--model", garbage, "--trials", "5"}), {garbage, "ONNX"});
  ExpectOneLine(Run({"run", garbage}), {garbage, "package"});
  ExpectOneLine(Run({"bench", garbage}), {garbage, "package"});
  ExpectOneLine(Run({"run", "/no/such.tar"}), {"/no/such.tar"});
  ExpectOneLine(Run({"run", folder_}), {folder_});
  ExpectOneLine(Run({"--model", kExample, "--target", "abacus"}), {"abacus", "llvm"});
  for (const char* attribute : {"-mcpu=abacus", "-mattr=+abacus", "-mtriple=abacus-linux-gnu"}) {
    std::string target = std::string("llvm ") + attribute;
    ExpectOneLine(Run({"compile", "--model", kExample, "--target", target, "-o", out}), {"abacus"});
    ExpectOneLine(Run({"--model", kExample, "--target", target, "--trials", "5"}), {"abacus"});
  }
  ExpectOneLine(Run({"--model", kExample, "--time-budget", "soon"}), {"soon", "10m"}, 2);
  ExpectOneLine(Run({"--model", kExample, "--tracker", "127.0.0.1:1"}), {"a farm needs --key", "127.0.0.1:1"}, 2);
  ExpectOneLine(Run({"--model", kExample, "--tracker", "127.0.0.1:1", "--key", "pi"}), {"--tracker", "join file"});
  ExpectOneLine(Run({"--model", kExample, "--db", "/no/such/records.db"}), {"/no/such"});
  ExpectOneLine(Run({"--model", kExample, "--db", garbage}), {garbage, "--db"});
  ExpectOneLine(Run({"--model", kExample, "--tasks", "conv3d"}), {"--tasks", "'conv3d'", "--tasks list"});
  ExpectOneLine(Run({"--op", "matmull:1,2,3"}), {"--op 'matmull:1,2,3'", "did you mean matmul?"});
  ExpectOneLine(Run({"compile", "--op", "matmul:1,2", "-o", out}), {"matmul takes matmul:M,K,N"});
  ExpectOneLine(Run({"--model", kExample, "--shape", "nonsense"}), {"nonsense"});
  ExpectOneLine(Run({"verify", "--model", kExample, "--data", "/no/such"}), {"/no/such"});
  ExpectOneLine(Run({"verify", "--model", kExample, "--data", folder_}), {folder_, "output_0.pb"});
  ExpectOneLine(Finish(alone, "alone"), {File("nobody"), "rpc_tracker"});
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(Cli, TunesCompilesRunsAndVerifies) {
  std::string package = File("net.tar");
  std::vector<std::string> tune = {"--model", SmallModel(), "--trials", "16", "-o", package};
  CliResult first = Run(tune);
  ASSERT_EQ(first.code, 0) << first.Text();
  EXPECT_THAT(first.err, AllOf(HasSubstr("tuning small"), HasSubstr("7 tasks"), HasSubstr("16/16 trials"),
                               HasSubstr("autotune run " + package), HasSubstr("autotune bench " + package)));
  EXPECT_THAT(first.out, AllOf(HasSubstr("GFLOPS"), HasSubstr("softmax"),
                               AnyOf(HasSubstr("times as fast"), HasSubstr("keeps its default schedules"))));
  EXPECT_THAT(Lines(first.out).back(),
              AllOf(StartsWith("small on "), HasSubstr("; saved in " + package + ", records in " + db_)));
  // The table identifies its rows by task ids and explains its numbers. It does not show the compiler's target text.
  EXPECT_THAT(first.out, AllOf(HasSubstr("task     calls   default"), HasSubstr("one call of the kernel alone"),
                               HasSubstr(" of "), Not(HasSubstr("-mtriple")), Not(HasSubstr("rejected"))));
  EXPECT_TRUE(ReadPackage(package).ok());
  int64_t records = 0;
  {
    auto store = OpenStore(db_);
    ASSERT_TRUE(store.ok());
    EXPECT_TRUE((*store)->Check().ok());
    EXPECT_EQ((*store)->Count({.trials_only = true}).value(), 16);
    records = (*store)->Count({}).value();
  }

  // A finished run prints its table again, and measures neither kernels nor networks.
  const bool keeps_defaults = first.out.find("keeps its default schedules") != std::string::npos;
  CliResult second = Run(tune);
  EXPECT_EQ(second.code, 0) << second.Text();
  EXPECT_THAT(second.out, AllOf(HasSubstr("GFLOPS"), HasSubstr("16 trials, all measured by"),
                                HasSubstr("an earlier run chose from the same"), Not(HasSubstr("0.0 trials/s")),
                                Not(HasSubstr("(0.0/s"))));
  EXPECT_EQ(second.out.find("the network keeps its default schedules, as") != std::string::npos, keeps_defaults)
      << second.out;
  EXPECT_EQ(OpenStore(db_).value()->Count({}).value(), records);

  // With --json, every line of the output is JSON.
  tune.push_back("--json");
  CliResult json = Run(tune);
  EXPECT_EQ(json.code, 0) << json.Text();
  std::vector<Json> events = EventsOf(json.out);
  std::erase_if(events, [](const Json& e) { return NameOf(e) == "note"; });  // other programs may disturb all times
  ASSERT_EQ(events.size(), 3u) << json.out;
  EXPECT_EQ(NameOf(events[0]), "begin");
  EXPECT_EQ(NameOf(events[1]), "end");
  EXPECT_EQ(TrialsOf(events[1]), 16);
  EXPECT_EQ(events[1]["tasks"].As<Json::Array>()->size(), 7u);
  EXPECT_TRUE(*events[1]["choice"]["undisturbed"].As<bool>());
  EXPECT_EQ(NameOf(events[2]), "saved");
  EXPECT_EQ(*events[2]["package"].As<std::string>(), package);

  CliResult compiled = Run({"compile", "--model", SmallModel(), "-o", File("tuned.tar")});
  EXPECT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_THAT(compiled.out, HasSubstr(" of 7 kernels tuned"));
  // So few trials on a busy machine may find nothing faster than the default schedules; the run then says so.
  EXPECT_EQ(compiled.out.find(": 0 of 7") != std::string::npos, keeps_defaults) << compiled.out;
  CliResult untuned = Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("default.tar")});
  EXPECT_THAT(untuned.out, HasSubstr("0 of 7 kernels tuned")) << untuned.Text();
  CliResult elsewhere = Run({"compile", "--model", SmallModel(), "--db", File("empty.db"), "-o", File("empty.tar")});
  EXPECT_THAT(elsewhere.Text(), AllOf(HasSubstr("0 of 7 kernels tuned"), HasSubstr("note: the database has no")))
      << elsewhere.Text();

  for (const char* name : {"tuned.tar", "default.tar", "net.tar"}) {
    CliResult run = Run({"run", File(name), "--input", "image=" + SmallData() + "/input_0.pb", "--output-dir",
                         File("outputs"), "--threads", "1"});
    EXPECT_EQ(run.code, 0) << run.Text();
    EXPECT_THAT(run.out, AllOf(HasSubstr("output probabilities f32"), HasSubstr("wrote ")));
    EXPECT_TRUE(std::filesystem::exists(File("outputs/probabilities.npy")));
  }
  // An .npz file names the inputs, and takes the outputs.
  const Tensor other = ReadNpy(File("outputs/probabilities.npy")).value();
  ASSERT_TRUE(WriteNpz(File("wrong.npz"), {{"nosuch", other}}).ok());
  ExpectOneLine(Run({"run", package, "--input", File("wrong.npz")}), {"nosuch", "image", "wrong.npz"});
  const CliResult packed = Run({"run", package, "-o", File("outputs.npz")});
  EXPECT_EQ(packed.code, 0) << packed.Text();
  EXPECT_EQ(ReadNpz(File("outputs.npz")).value()[0].first, "probabilities");
  ExpectOneLine(Run({"run", package, "-o", File("nodir/outputs.npz")}), {"there is no folder"});
  CliResult other_input = Run({"run", package, "--input", "nosuch=" + SmallData() + "/input_0.pb"});
  ExpectOneLine(other_input, {"nosuch", "image"});

  CliResult bench = Run({"bench", package, "--threads", "1", "--seconds", "0.05", "--json"});
  EXPECT_EQ(bench.code, 0) << bench.Text();
  auto line = Json::Parse(bench.out);
  ASSERT_TRUE(line.ok()) << bench.out;
  EXPECT_TRUE((*line)["min_ms"].As<double>() && (*line)["median_ms"].As<double>() && (*line)["n"].As<int64_t>())
      << bench.out;

  CliResult right = Run({"verify", "--model", kExample, "--data", kExampleData});
  EXPECT_EQ(right.code, 0) << right.Text();
}

// Lists the tasks and tunes one of them by its id. Times that were not measured are null, not 0.
TEST_F(Cli, TunesAPartOfANetwork) {
  CliResult before = Run({"--model", SmallModel(), "--tasks", "list"});
  ASSERT_EQ(before.code, 0) << before.Text();
  EXPECT_THAT(before.out, AllOf(HasSubstr("task      calls"), HasSubstr("7 tasks, 0 with a schedule")));
  EXPECT_FALSE(std::filesystem::exists(db_)) << "listing tasks must not create a database";
  std::string id;
  for (const std::string& line : Lines(before.out)) {
    if (line.find("softmax") != std::string::npos) id = line.substr(0, 8);
  }
  ASSERT_EQ(id.size(), 8u) << before.out;

  CliResult tuned = Run({"--model", SmallModel(), "--tasks", id, "--trials", "4", "--verbose"});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.err, AllOf(HasSubstr("1 of 7 tasks"), HasSubstr("target: llvm -mtriple=")));
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("\n" + id), Not(HasSubstr("conv2d"))));
  CliResult after = Run({"--model", SmallModel(), "--tasks", "list", "--json"});
  ASSERT_EQ(after.code, 0) << after.Text();
  std::vector<Json> tasks = EventsOf(after.out);
  ASSERT_EQ(tasks.size(), 7u);
  int with_time = 0;
  for (const Json& task : tasks) with_time += !task["best_ms"].IsNull();
  EXPECT_EQ(with_time, 1);

  // A budget of one trial leaves 6 tasks without a time.
  CliResult few = Run({"--model", SmallModel(), "--trials", "1", "--json", "--db", File("few.db")});
  ASSERT_EQ(few.code, 0) << few.Text();
  Json end = test::LastOf(EventsOf(few.out), "end");
  int null = 0;
  for (const Json& task : *end["tasks"].As<Json::Array>()) {
    null += task["tuned_ms"].IsNull();
    EXPECT_NE(task["tuned_ms"].Number().value_or(1), 0);
    EXPECT_NE(task["default_ms"].Number().value_or(1), 0);
  }
  EXPECT_GE(null, 1);
}

TEST_F(Cli, TunesAndCompilesOneOperator) {
  const std::string op = "conv2d:1,14,14,16;3,3,16,16;pad=1";
  CliResult tuned = Run({"--op", op, "--trials", "4", "-o", File("tuned.tar")});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.Text(), AllOf(HasSubstr("tuning conv2d_1x14x14x16_3x3x16x16_pad1"), HasSubstr("1 task"),
                                  AnyOf(HasSubstr("times as fast"), HasSubstr("keeps its default schedules"))));
  CliResult compiled = Run({"compile", "--op", "conv2d:1,14,14,16;3,3,16,16;pad=1,1", "-o", File("same.tar")});
  ASSERT_EQ(compiled.code, 0) << compiled.Text();
  // The same operator in another spelling gets the schedules that the tuning run chose.
  EXPECT_EQ(ReadPackage(File("same.tar")).value().library, ReadPackage(File("tuned.tar")).value().library);
  CliResult run = Run({"run", File("same.tar"), "--threads", "1"});
  EXPECT_EQ(run.code, 0) << run.Text();
  EXPECT_THAT(run.out, HasSubstr("output y f32[1, 14, 14, 16]"));
  for (const char* other : {"matmul:33,20,17", "batch_matmul:2,9,8,7", "dense:4,32,10", "layer_norm:6,32",
                            "depthwise_conv2d:1,9,9,8;3,3;stride=2;pad=1", "softmax:4,10", "reduce_sum:5,7;axes=0",
                            "conv2d:1,8,8,8;3,3,4,8;groups=2;dtype=f64"}) {
    CliResult result = Run({"compile", "--op", other, "-o", File("other.tar")});
    EXPECT_EQ(result.code, 0) << other << result.Text();
    EXPECT_EQ(Run({"run", File("other.tar")}).code, 0) << other;
  }
}

// Kernels of target c, which are C sources, are tuned, compiled, run and verified. Target llvm does not use their
// records.
TEST_F(Cli, TheCTarget) {
  const std::string op = "matmul:24,20,12";
  CliResult tuned = Run({"--op", op, "--trials", "4", "--target", "c", "-o", File("tuned.tar")});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  EXPECT_THAT(tuned.err, HasSubstr(", as C)"));
  EXPECT_EQ(Run({"run", File("tuned.tar")}).code, 0);
  // The records belong to target c, so the two other targets find none.
  CliResult compiled = Run({"compile", "--op", op, "--target", "c", "-o", File("c.tar")});
  EXPECT_TRUE(FollowsRecords(compiled)) << compiled.Text();
  CliResult llvm = Run({"compile", "--op", op, "-o", File("llvm.tar")});
  EXPECT_FALSE(FollowsRecords(llvm)) << llvm.Text();
  CliResult plain = Run({"compile", "--op", op, "--target", "c -vectors=none", "-o", File("plain.tar")});
  EXPECT_FALSE(FollowsRecords(plain)) << plain.Text();
  EXPECT_EQ(Run({"run", File("plain.tar")}).code, 0);
  CliResult verified = Run({"records", "verify", "--measure"});
  EXPECT_EQ(verified.code, 0) << verified.Text();
  EXPECT_THAT(verified.out, HasSubstr("best records: 1 right, 0 wrong, 0 broken, 0 not run"));
  CliResult right = Run({"verify", "--model", SmallModel(), "--data", SmallData(), "--target", "c"});
  EXPECT_EQ(right.code, 0) << right.Text();
  // Without a C compiler, one line says so before any search.
  setenv("AUTOTUNE_CC", "/no/such/cc", 1);
  ExpectOneLine(Run({"compile", "--op", op, "--target", "c", "-o", File("none.tar")}),
                {"needs a C compiler", "cannot start /no/such/cc", "install gcc or clang"});
  unsetenv("AUTOTUNE_CC");
}

// The results of a run in memory are gone afterwards. So the run must not advise a command that needs them.
TEST_F(Cli, ADatabaseInMemoryKeepsNothing) {
  const CliResult saved = Run({"tune", "--op", "matmul:16,16,16", "--trials", "2"});
  EXPECT_THAT(saved.Text(), AllOf(HasSubstr("autotune compile"), Not(HasSubstr("nothing is saved"))));
  const CliResult run = Run({"tune", "--op", "matmul:16,16,16", "--trials", "2", "--db", ":memory:"});
  EXPECT_EQ(run.code, 0) << run.Text();
  EXPECT_THAT(run.Text(),
              AllOf(HasSubstr("nothing is saved"), HasSubstr("--db FILE"), Not(HasSubstr("autotune compile"))));
}

// If a file exceeds the process's limit, the command ends with one line, is not killed, and leaves no file behind.
TEST_F(Cli, FilesBeyondTheLimit) {
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "-o", File("first.tar")}).code, 0);  // makes the database
  for (const char* blocks : {"8", "24"}) {  // limits in KiB: below the size of the library, and of the whole package
    prefix_ = {"bash", "-c", "ulimit -f " + std::string(blocks) + " && exec \"$0\" \"$@\""};
    for (const char* name : {"net.tar", "net.so"}) {
      CliResult result = Run({"compile", "--model", SmallModel(), "--no-records", "-o", File(name)});
      EXPECT_EQ(result.code, 1) << result.Text();
      EXPECT_THAT(result.err, AllOf(StartsWith("error: cannot write "), HasSubstr("File too large")));
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_FALSE(std::filesystem::exists(File(name)));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), Not(StartsWith("net."))) << entry.path();
}

TEST_F(Cli, LostOutputIsAnError) {
  prefix_ = {"bash", "-c", "exec \"$0\" \"$@\" > /dev/full"};
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"inspect", kExample}, {"tune", "--help"}, {"help", "records"}, {"devices"}}) {
    const CliResult lost = Run(command);
    EXPECT_EQ(lost.code, 1) << command[0];
    EXPECT_THAT(lost.err, HasSubstr("error: a part of standard output is lost")) << command[0];
  }
  prefix_ = {"bash", "-c", "exec \"$0\" \"$@\" > /dev/null"};
  EXPECT_EQ(Run({"inspect", kExample}).code, 0);
}

TEST_F(Cli, HelpIsACommandToo) {
  EXPECT_EQ(Run({"help", "tune"}).out, Run({"tune", "--help"}).out);
  EXPECT_EQ(Run({"help"}).out, Run({"--help"}).out);
  EXPECT_EQ(Run({"help", "tuen"}).code, 2);
}

TEST_F(Cli, TheOutputIsCheckedBeforeTheWork) {
  const std::string copy = File("model.tar");
  std::filesystem::copy_file(kExample, copy);
  const std::string before = ReadAll(copy);
  std::filesystem::create_directory(File("folder.tar"));
  for (const char* command : {"compile", "tune"}) {
    ExpectOneLine(Run({command, "--model", kExample, "-o", File("none/x.tar")}), {"there is no folder", "none"}, 1);
    ExpectOneLine(Run({command, "--model", kExample, "-o", File("folder.tar")}), {"not a regular file"}, 1);
    ExpectOneLine(Run({command, "--model", copy, "-o", copy}), {"is the model itself"}, 1);
  }
  EXPECT_EQ(ReadAll(copy), before);
  EXPECT_EQ(Run({"compile", "--op", "matmul:4,4,4", "-o", File("right.tar")}).code, 0);
}

TEST_F(Cli, ATimeBudgetAloneAndAnyNumberOfTrials) {
  const std::vector<std::string> op{"tune", "--op", "matmul:16,16,16", "--time-budget", "2s", "--json"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = op;
    all.insert(all.end(), more.begin(), more.end());
    return Run(all);
  };
  const CliResult until = with({"--seed", "1"});
  EXPECT_EQ(until.code, 0) << until.Text();
  EXPECT_THAT(until.out, HasSubstr("\"trials\":0")) << "only the time ends the search";
  const CliResult limited = with({"--seed", "2", "--trials", "4"});
  EXPECT_THAT(limited.out, HasSubstr("\"planned_trials\":4"));
  for (const char* many : {"1000000000", "99999999999999999999"}) {
    const CliResult large = with({"--fresh", "--trials", many});
    EXPECT_EQ(large.code, 0) << large.Text();
    EXPECT_THAT(large.out, Not(HasSubstr("\"trials\":1,\"resumed_trials\""))) << "the search goes on after one trial";
  }
}

TEST_F(Cli, VerifyTellsWrongFromRight) {
  namespace fs = std::filesystem;
  CliResult right = Run({"verify", "--model", SmallModel(), "--data", SmallData()});
  EXPECT_EQ(right.code, 0) << right.Text();
  EXPECT_THAT(right.out, StartsWith("ok: "));

  fs::copy(SmallData(), File("wrong"));
  NamedTensor output = ReadTensorPb(SmallData() + "/output_0.pb").value();
  std::vector<float> elements(output.value.As<float>(), output.value.As<float>() + output.value.spec.NumElements());
  elements[3] += 0.01f;
  output.value.bytes =
      graph::SharedBytes::Copy({reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float)});
  ASSERT_TRUE(WriteTensorPb(File("wrong/output_0.pb"), output).ok());
  CliResult wrong = Run({"verify", "--model", SmallModel(), "--data", File("wrong")});
  EXPECT_EQ(wrong.code, 3) << wrong.Text();
  EXPECT_THAT(wrong.out, AllOf(StartsWith("WRONG: "), HasSubstr("1 of 10 elements differ"), HasSubstr("at 3")));
  CliResult loose = Run({"verify", "--model", SmallModel(), "--data", File("wrong"), "--atol", "0.5"});
  EXPECT_EQ(loose.code, 0) << loose.Text();

  // Data with an output that the model lacks is refused.
  fs::copy(SmallData(), File("more"));
  fs::copy(SmallData() + "/output_0.pb", File("more/output_1.pb"));
  ExpectOneLine(Run({"verify", "--model", SmallModel(), "--data", File("more")}), {"2 outputs, the model 1"});

  Write("wrong/output_0.pb", "\xff\xff\xff");
  ExpectOneLine(Run({"verify", "--model", SmallModel(), "--data", File("wrong")}), {"output_0.pb"});

  // --bind fixes an input. A wrong name, a missing file, a malformed pair and a wrong type each give one clear line. A
  // correct binding gives the same results as an input file.
  std::string input = SmallData() + "/input_0.pb";
  auto bound = [&](const std::string& bind) {
    return Run({"verify", "--model", SmallModel(), "--data", SmallData(), "--bind", bind});
  };
  std::string name = ReadTensorPb(input).value().name;
  ASSERT_NE(name, "");
  EXPECT_EQ(bound(name + "=" + input).code, 0) << bound(name + "=" + input).Text();
  ExpectOneLine(bound("nothing=" + input), {"--bind names input 'nothing'", name});
  ExpectOneLine(bound(name + "=/no/such.pb"), {"/no/such.pb"});
  ExpectOneLine(bound(name), {"NAME=FILE.pb"});
  ExpectOneLine(bound(name + "=" + SmallData() + "/output_0.pb"), {"cannot be fixed to"});
  EXPECT_EQ(Run({"verify", "--data", SmallData(), "--bind", name + "=" + input}).code, 2);

  // A folder of cases: a correct one, one with a damaged model and, added later, one without outputs.
  fs::create_directories(File("cases/a"));
  fs::copy(SmallModel(), File("cases/a/model.onnx"));
  fs::copy(SmallData(), File("cases/a/test_data_set_0"));
  fs::create_directories(File("cases/b"));
  Write("cases/b/model.onnx", "garbage");
  CliResult cases = Run({"verify", "--data", File("cases")});
  EXPECT_EQ(cases.code, 0) << cases.Text();
  EXPECT_EQ(Lines(cases.out).back(), "1 passed, 0 failed, 1 unsupported") << cases.Text();
  EXPECT_THAT(cases.out, HasSubstr("     1 unsupported: is not an ONNX model")) << cases.Text();
  fs::create_directories(File("cases/c"));
  fs::copy(SmallModel(), File("cases/c/model.onnx"));
  cases = Run({"verify", "--data", File("cases")});
  EXPECT_EQ(cases.code, 3) << cases.Text();
  EXPECT_EQ(Lines(cases.out).back(), "1 passed, 1 failed, 1 unsupported") << cases.Text();
}

}  // namespace
}  // namespace autotune
