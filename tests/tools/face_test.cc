// What all commands have in common: no option is ignored, no output is lost silently, --json prints errors as objects,
// and a shell can run the commands that messages suggest.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <cstdlib>

#include "support/shell.h"
#include "tests/frontend/model_maker.h"
#include "tests/tools/cli.h"

namespace autotune::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kOp = {"--op", "matmul:16,16,16"};

class Face : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    folder_of_package_ = File("it's a (small) \"net\"");
    std::filesystem::create_directory(folder_of_package_);
    package_ = folder_of_package_ + "/net.tar";
    ASSERT_EQ(Run(Words{"compile"} + kOp + Words{"-q", "-o", package_}).code, 0);
  }
  // Runs another program of the project, with standard output to File("out") or to `out`.
  CliResult RunProgram(const Words& command, const std::string& out = "") {
    UniqueFd output(open((out.empty() ? File("out") : out).c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    UniqueFd err(open(File("err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    auto child = Subprocess::Spawn({.argv = command, .fds = {{1, output.get()}, {2, err.get()}}});
    CliResult result;
    const auto status = child.ok() ? child->Wait(60000) : std::nullopt;
    if (status) result.code = status->code;
    result.out = out.empty() ? ReadAll(File("out")) : "";
    result.err = ReadAll(File("err"));
    return result;
  }

  // Runs a line of a shell in the folder of this test.
  CliResult RunInShell(const std::string& line) {
    const std::string script = Write("line.sh", "cd " + ShellWord(folder_) + " || exit 99\n" + line + "\n");
    const int status = std::system(
        ("sh " + ShellWord(script) + " > " + ShellWord(File("out")) + " 2> " + ShellWord(File("err"))).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(File("out")), ReadAll(File("err"))};
  }

  std::string folder_of_package_, package_;
};

// A command that prints results.
struct Printing {
  Words command;
  bool slow = false;               // seconds, so it is run less often
  bool silent_if_quiet = false;    // its result is a file, or that all is well
  bool has_output_options = true;  // takes --json and --quiet
};

std::vector<Printing> AllPrinting(const std::string& package, const std::string& db, const Words& verify) {
  return {{Words{"tune"} + kOp + Words{"--trials", "2"}, true},
          {Words{"tune"} + kOp + Words{"--tasks", "list"}},
          {Words{"compile"} + kOp + Words{"-o", package}, false, true},
          {{"run", package}},
          {{"bench", package, "--seconds", "0.01", "--wait", "0"}},
          {{"bench", package, "--seconds", "0.01", "--wait", "0", "--profile"}, true},
          {verify, true, true},
          {{"inspect", package}},
          {{"inspect", kExample}},
          {{"explain", package, "--no-run"}},
          {Words{"explain"} + kOp + Words{"--no-run"}},
          {{"report", package, "--no-run", "-o", package + ".html"}, false, true},
          {{"compare", package, package, "--seconds", "0.01", "--wait", "0"}, true},
          {{"devices"}},
          {{"doctor"}, true, true},
          {{"records", "stats", "--db", db}},
          {{"records", "show"}},
          {{"records", "export"}},
          {{"records", "prune", "--dry-run"}, false, true},
          {{"records", "verify"}, true, true},
          {{"help", "records"}, false, false, false},
          {{"--version"}, false, false, false}};
}

TEST_F(Face, NoCommandLosesOutputSilently) {
  ASSERT_EQ(Run(Words{"tune"} + kOp + Words{"--trials", "2", "-q"}).code, 0);  // makes records
  for (const Printing& printing :
       AllPrinting(package_, db_, {"verify", "--model", SmallModel(), "--data", SmallData()})) {
    const std::string name = ::testing::PrintToString(printing.command);
    const auto redirected = [](const std::string& where) { return Words{"bash", "-c", "exec \"$0\" \"$@\" " + where}; };
    if (!printing.slow) {
      prefix_ = redirected(">&-");  // the next file that is opened must not get the number of standard output
      const CliResult closed = Run(printing.command);
      EXPECT_EQ(closed.code, 1) << name;
      EXPECT_THAT(closed.err, HasSubstr("error: a part of standard output is lost")) << name;
    }
    prefix_ = redirected("> /dev/full");
    const bool both = printing.has_output_options && !printing.slow;
    for (const Words& json : both ? std::vector<Words>{{}, {"--json"}} : std::vector<Words>{{}}) {
      const CliResult lost = Run(printing.command + json);
      EXPECT_EQ(lost.code, 1) << name;
      EXPECT_THAT(lost.err, HasSubstr("error: a part of standard output is lost")) << name;
    }
    prefix_ = {};
    const CliResult kept = Run(printing.command);
    EXPECT_EQ(kept.code, 0) << name << kept.Text();
    EXPECT_NE(kept.out, "") << name;
    if (!both) continue;
    const CliResult quiet = Run(printing.command + Words{"-q"});
    EXPECT_EQ(quiet.code, 0) << name << quiet.Text();
    EXPECT_EQ(quiet.err, "") << name;
    EXPECT_EQ(quiet.out.empty(), printing.silent_if_quiet) << name << quiet.out;
  }
}

TEST_F(Face, LostOutputIsAnErrorOfTheServersToo) {
  for (const Words& command : {Words{kTools + "/rpc_server", "--help"},
                               {kTools + "/rpc_tracker", "--help"},
                               {kTools + "/rpc_tracker", "--state", File("state")}}) {
    const CliResult lost = RunProgram(command, "/dev/full");
    EXPECT_EQ(lost.code, 1) << command[0] << lost.Text();
    EXPECT_THAT(lost.err, HasSubstr("error: a part of standard output is lost")) << command[0];
  }
  EXPECT_EQ(RunProgram({kTools + "/rpc_server", "--help"}).code, 0);
  // Its address is lost, and so it does not serve; with an output, it serves until a signal ends it.
  auto tracker = Subprocess::Spawn({.argv = {kTools + "/rpc_tracker", "--state", File("state")}});
  ASSERT_TRUE(tracker.ok());
  EXPECT_FALSE(tracker->Wait(1000).has_value());
  kill(tracker->pid(), SIGTERM);
  const auto ended = tracker->Wait(20000);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code, 0);
}

TEST_F(Face, AWordThatAnOptionDoesNotKnowIsNamedWithThoseThatItKnows) {
  const CliResult refused = RunProgram({kTools + "/rpc_server", "--sandbox", "auto"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("error: --sandbox: auto not in {off,on,strict}\n"));
}

TEST_F(Face, WithJsonTheErrorsOfEveryCommandAreObjects) {
  const std::string none = File("none.tar");
  const std::vector<std::pair<Words, int>> failing = {
      {Words{"tune", "--model", none}, 1},
      {{"tune", "--model", kExample, "--tasks", "nosuch"}, 1},
      {{"tune"}, 2},
      {{"tune", "--trails", "5"}, 2},
      {{"compile", "--model", none, "-o", File("x.tar")}, 1},
      {{"compile", "--model", none}, 2},
      {{"run", none}, 1},
      {{"bench", none}, 1},
      {{"verify", "--package", none, "--data", kExampleData}, 1},
      {{"inspect", none}, 1},
      {{"explain", none}, 1},
      {{"explain", package_, "nosuch", "--no-run"}, 1},
      {{"explain", package_, "0123", "--no-run"}, 1},
      {{"replay", "01234567"}, 1},
      {{"devices", "--tracker", "nowhere"}, 1},
      {{"records", "show", "01234567"}, 1},
      {{"records", "choice", "nosuch"}, 1},
      {{"records", "verify", "--db", none}, 1},
      {{"records", "import", none}, 1},
      {{"frobnicate"}, 2},
  };
  for (const auto& [command, code] : failing) {
    const CliResult result = Run(command + Words{"--json"});
    EXPECT_EQ(result.code, code) << ::testing::PrintToString(command) << result.Text();
    const Words lines = Lines(result.out);
    ASSERT_FALSE(lines.empty()) << ::testing::PrintToString(command) << result.err;
    const Result<Json> error = Json::Parse(lines.back());
    ASSERT_TRUE(error.ok()) << lines.back();
    EXPECT_EQ(NameOf(*error), "error");
    EXPECT_EQ(*(*error)["code"].As<int64_t>(), code);
    EXPECT_THAT(result.err, HasSubstr("error: " + *(*error)["text"].As<std::string>()));
    EXPECT_EQ(Run(command).out, "") << "without --json, standard output holds results only";
  }
}

TEST_F(Face, AnOptionWithoutEffectIsRefused) {
  const std::string compiled = " is compiled already, so it excludes ";
  struct Case {
    Words command, option;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {{"explain", package_, "--no-run"}, {"--target", "c"}, "a package" + compiled + "--target"},
      {{"explain", package_, "--no-run"}, {"--lenient"}, "a package" + compiled + "--lenient"},
      {{"explain", package_, "--no-run"}, {"--shape", "x:1"}, "a package" + compiled + "--shape"},
      {{"explain", package_, "--no-run"}, {"--no-winograd"}, "a package" + compiled + "--no-winograd"},
      {{"explain", package_, "--no-run"}, {"--seconds", "1"}, "--no-run measures nothing"},
      {{"report", package_, "--no-run", "--json"}, {"--target", "c"}, "a package" + compiled + "--target"},
      {{"report", package_, "--no-run", "--json"}, {"--seconds", "1"}, "--no-run measures nothing"},
      {{"compare", package_, package_, "--seconds", "0"}, {"--target", "c"}, "neither is a database"},
      {{"inspect", package_}, {"--dim", "n=1"}, "a package" + compiled + "--dim"},
      {{"inspect", package_}, {"--lenient"}, "a package" + compiled + "--lenient"},
      {{"inspect", kExample}, {"--verbose"}, "a model has no target, so it excludes --verbose"},
      {{"verify", "--package", package_, "--data", kExampleData}, {"--lenient"}, "--package" + compiled + "--lenient"},
      {{"bench", package_, "--seconds", "0.01"}, {"--wide"}, "only --profile prints names"},
      {{"bench", package_, "--serve"}, {"--profile"}, "--serve measures what standard input asks for"},
      {{"doctor", "--probe"}, {"--db", db_}, "--probe uses no database"},
      {Words{"compile"} + kOp + Words{"--no-records", "-o", File("x.tar")}, {"--db", db_}, "uses no records"},
      {Words{"tune"} + kOp + Words{"--tasks", "list"}, {"--trials", "4"}, "--tasks list tunes nothing"},
      {Words{"tune"} + kOp + Words{"--tasks", "list"}, {"-o", File("x.tar")}, "--tasks list tunes nothing"},
      {Words{"tune"} + kOp + Words{"--tasks", "list"}, {"--http", "127.0.0.1:0"}, "--tasks list tunes nothing"},
      {{"records", "show", "01234567"}, {"--task", "01"}, "a record or task is named already"},
  };
  for (const Case& c : cases) {
    const CliResult refused = Run(c.command + c.option);
    EXPECT_EQ(refused.code, 2) << c.reason << refused.Text();
    EXPECT_THAT(refused.err, AllOf(StartsWith("error: "), HasSubstr(c.reason)));
    EXPECT_EQ(Lines(refused.err).size(), 1u) << refused.err;
    if (c.command[0] == "doctor" || c.command[0] == "records" || c.command[0] == "verify") continue;
    EXPECT_NE(Run(c.command).code, 2) << c.reason;
  }
  EXPECT_FALSE(std::filesystem::exists(File("none.db")));
  // Only the command line gives options. The environment is for all commands.
  setenv("AUTOTUNE_TRACKER", "127.0.0.1:1", 1);
  EXPECT_EQ(Run(Words{"tune"} + kOp + Words{"--tasks", "list"}).code, 0);
  unsetenv("AUTOTUNE_TRACKER");
  const CliResult status = RunProgram({kTools + "/rpc_tracker", "--listen", "1", "status"});
  EXPECT_EQ(status.code, 2);
  EXPECT_THAT(status.err, HasSubstr("so it excludes --listen"));
}

TEST_F(Face, WithoutRecordsThereIsNoDatabase) {
  setenv("AUTOTUNE_DB", File("new.db").c_str(), 1);
  EXPECT_EQ(Run(Words{"compile"} + kOp + Words{"--no-records", "-o", File("x.tar")}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(File("new.db")));
  EXPECT_EQ(Run(Words{"compile"} + kOp + Words{"-o", File("x.tar")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(File("new.db")));
}

// Root may write into folders whose permissions forbid it, but neither into /proc nor below a file.
TEST_F(Face, AnOutputThatCannotBeWrittenEndsTheCommandBeforeItsWork) {
  Write("file", "no folder");
  for (const std::string& place : Words{"/proc/x", "/proc/self/x", File("file/x"), File("none/x")}) {
    for (const Words& command :
         {Words{"tune"} + kOp + Words{"--trials", "2"}, Words{"compile"} + kOp + Words{"--db", File("new.db")}}) {
      const CliResult refused = Run(command + Words{"-o", place + ".tar"});
      EXPECT_EQ(refused.code, 1) << place << refused.Text();
      EXPECT_THAT(refused.err,
                  AllOf(StartsWith("error: "), HasSubstr("-o " + place + ".tar"), Not(HasSubstr("tuning"))));
    }
    const CliResult refused = Run({"run", package_, "-o", place + ".npz"});
    EXPECT_EQ(refused.code, 1) << place;
    EXPECT_EQ(refused.out, "") << "the network ran first";
  }
  EXPECT_FALSE(std::filesystem::exists(File("new.db")));
  const CliResult folder = Run({"run", package_, "--output-dir", "/proc/self"});
  EXPECT_EQ(folder.code, 1);
  EXPECT_EQ(folder.out, "");
  EXPECT_EQ(Run({"run", package_, "-o", File("x.npz"), "--output-dir", File("outputs")}).code, 0);
}

// Returns the rest of the line after `begin`.
std::string After(const std::string& text, const std::string& begin) {
  const size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  const size_t first = at + begin.size();
  return text.substr(first, text.find('\n', first) - first);
}

TEST_F(Face, ASuggestedCommandWorksInAShell) {
  const auto pasted = [&](const std::string& command, const std::string& more = "") {
    EXPECT_THAT(command, StartsWith("autotune ")) << more;
    return RunInShell("PATH=" + kTools + ":$PATH; " + command + more);
  };
  const std::string model = folder_of_package_ + "/it's $(my) `net`.onnx", db = folder_of_package_ + "/my records.db";
  std::filesystem::copy_file(SmallModel(), model);
  const CliResult tuned = Run({"tune", "--model", model, "--trials", "2", "--db", db});
  ASSERT_EQ(tuned.code, 0) << tuned.Text();
  const CliResult compiled = pasted(After(tuned.err, "compile it:  "));
  EXPECT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_TRUE(std::filesystem::exists(File("model.tar")));
  const CliResult packed = Run({"tune", "--model", model, "--trials", "2", "--db", db, "-o", package_});
  EXPECT_EQ(pasted(After(packed.err, "run it:      ")).code, 0);
  EXPECT_EQ(pasted(After(packed.err, "measure it:  "), " --seconds 0.01").code, 0);
  const CliResult untuned = Run({"compile", "--model", model, "--db", File("new.db"), "-o", package_});
  EXPECT_EQ(pasted(After(untuned.err, "tune it first:\n  "), " --trials 2").code, 0) << untuned.Text();
  EXPECT_EQ(pasted(After(Run({"run", package_}).out, "for the latency: "), " --seconds 0.01").code, 0);
  const CliResult profile = Run({"bench", package_, "--profile", "--seconds", "0.01", "--wait", "0"});
  EXPECT_EQ(pasted(After(profile.out, "takes its time: "), " --no-run").code, 0) << profile.out;
  // The same words without quotes fail: the shell sees other words, or an open quote.
  EXPECT_NE(pasted("autotune run " + package_).code, 0);
}

TEST_F(Face, TheCommandThatResumesHasTheSameWords) {
  const std::string tasks = "*conv2d* [1,32,32,16]*", db = folder_of_package_ + "/it's mine.db";
  const Words words = {"--model", kExample,  "--db", db,       "--trials",
                       "100000",  "--tasks", tasks,  "--http", "127.0.0.1:0"};
  Subprocess child = Start(words, "stopped");
  ASSERT_TRUE(Soon([&] { return ReadAll(File("stopped.err")).find("tuning resnet20") != std::string::npos; }));
  usleep(1500000);
  kill(child.pid(), SIGINT);
  const CliResult stopped = Finish(child, "stopped");
  EXPECT_EQ(stopped.code, 130) << stopped.Text();
  const std::string command = After(stopped.err, "Go on with:\n  autotune ");
  const CliResult read = RunInShell("printf '%s\\n' " + command);
  EXPECT_THAT(Lines(read.out), ElementsAreArray(words)) << stopped.err;
}

TEST_F(Face, LenientTurnsRefusalsOfAModelIntoNotes) {
  ModelMaker m;
  m.Input("x", {4}).Output("y").Node("Relu", {"x"}, {"y"}).Int("bogus", 1);
  const std::string model = Write("bogus.onnx", m.Bytes());
  m = ModelMaker();
  m.Input("x", {4}).Output("y").Node("Relu", {"x"}, {"y"});
  const std::string right = Write("right.onnx", m.Bytes());
  for (const Words& command : {Words{"inspect"}, Words{"compile", "--no-records", "-o", File("x.tar")},
                               Words{"explain", "--no-run"}, Words{"tune", "--trials", "1"}}) {
    const CliResult strict = Run(command + Words{"--model", model});
    EXPECT_EQ(strict.code, 1) << strict.Text();
    EXPECT_THAT(strict.Text(), HasSubstr("bogus"));
    const CliResult lenient = Run(command + Words{"--model", model, "--lenient"});
    EXPECT_EQ(lenient.code, 0) << lenient.Text();
    EXPECT_THAT(lenient.err, AllOf(HasSubstr("note: "), HasSubstr("bogus"))) << command[0];
    EXPECT_THAT(Run(command + Words{"--model", right, "--lenient"}).err, Not(HasSubstr("bogus")));
  }
}

}  // namespace
}  // namespace autotune::test
