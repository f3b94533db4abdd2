// What commands print where: results on standard output, notes on standard error, JSON on request, little if quiet.
#include <gmock/gmock.h>

#include "tests/tools/cli.h"

namespace autotune::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Output : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    package_ = File("net.tar");
    ASSERT_EQ(Run({"--op", op_, "--trials", "4", "-q", "-o", package_}).code, 0);
  }
  // Runs a command with --json. Returns the objects that it prints; each line must be one.
  std::vector<Json> JsonOf(std::vector<std::string> arguments, int code = 0) {
    arguments.push_back("--json");
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.Text();
    std::vector<Json> objects;
    for (const std::string& line : Lines(result.out)) {
      Result<Json> object = Json::Parse(line);
      EXPECT_TRUE(object.ok() && object->As<Json::Object>()) << line;
      if (object.ok()) objects.push_back(*object);
    }
    EXPECT_FALSE(objects.empty()) << result.Text();
    return objects;
  }
  // Expects that the first object has these members.
  void ExpectMembers(const std::vector<std::string>& arguments, const std::vector<std::string>& members) {
    const std::vector<Json> objects = JsonOf(arguments);
    ASSERT_FALSE(objects.empty());
    for (const std::string& member : members)
      EXPECT_TRUE(objects[0].As<Json::Object>()->contains(member)) << arguments[0] << ": " << objects[0].Dump();
  }

  const std::string op_ = "matmul:16,16,16";
  std::string package_;
};

TEST_F(Output, EveryCommandPrintsJsonOnRequest) {
  const std::string again = File("again.tar");
  ExpectMembers({"compile", "--op", op_, "-o", again},
                {"package", "model", "target", "kernels", "tuned_kernels", "seconds"});
  ExpectMembers({"run", package_}, {"package", "model", "outputs", "runs_ms"});
  ExpectMembers({"verify", "--model", SmallModel(), "--data", SmallData()}, {"verdict", "text"});
  ExpectMembers({"inspect", SmallModel()},
                {"model", "opsets", "inputs", "outputs", "operators", "problems", "supported"});
  ExpectMembers({"inspect", package_}, {"model", "target", "inputs", "outputs", "kernels"});
  ExpectMembers({"explain", package_, "--no-run"}, {"task", "kernel", "cause", "sentence", "also"});
  ExpectMembers({"devices"}, {"model", "cores", "target", "gpus"});
  ExpectMembers({"doctor"}, {"about", "text", "problem"});
  ExpectMembers({"records", "stats"}, {"database", "records", "trials", "outcomes", "tasks", "targets"});
  ExpectMembers({"records", "show"}, {"task", "hash", "target", "records", "trials", "best_ms", "best_record"});
  ExpectMembers({"records", "export"}, {"id", "task", "trace"});
  ASSERT_EQ(Run({"records", "export", "-o", File("records.jsonl")}).code, 0);
  ExpectMembers({"records", "import", File("records.jsonl")}, {"from", "records", "stored"});
  ExpectMembers({"records", "prune", "--dry-run"}, {"dry_run", "deleted", "kept", "keep"});
  ExpectMembers({"records", "verify"}, {"verdict", "task", "hash", "record", "text"});
  const std::string record = *JsonOf({"records", "show"})[0]["best_record"].As<std::string>();
  ExpectMembers({"records", "show", record}, {"id", "task", "trace", "cost"});
  for (const char* stage : {"trace", "ir", "lowered", "c", "asm", "features"})
    ExpectMembers({"replay", record, "--print", stage}, {"record", "print", "text"});
}

TEST_F(Output, WithJsonAnErrorIsAnObjectToo) {
  const std::vector<Json> objects = JsonOf({"run", "/no/such.tar"}, 1);
  ASSERT_THAT(objects, SizeIs(1));
  EXPECT_EQ(NameOf(objects[0]), "error");
  EXPECT_THAT(*objects[0]["text"].As<std::string>(), HasSubstr("/no/such.tar"));
  EXPECT_EQ(*objects[0]["code"].As<int64_t>(), 1);
  EXPECT_EQ(Run({"run", "/no/such.tar"}).out, "") << "without --json, standard output holds results only";
}

TEST_F(Output, NotesAreOnStandardError) {
  const std::string note = "note: the database has no schedule for this network and target";
  std::vector<std::string> compile = {"compile", "--op", op_, "--db", File("new.db"), "-o", File("new.tar")};
  CliResult loud = Run(compile);
  EXPECT_THAT(loud.err, StartsWith(note));
  EXPECT_THAT(Lines(loud.out), ElementsAre(StartsWith("compiled matmul_16x16x16 for ")));
  compile.push_back("--quiet");
  CliResult quiet = Run(compile);
  EXPECT_EQ(quiet.code, 0) << quiet.Text();
  EXPECT_EQ(quiet.out + quiet.err, "");
  CliResult run = Run({"run", package_});
  EXPECT_THAT(run.err, StartsWith("note: input "));
  EXPECT_THAT(run.out, AllOf(StartsWith("output "), Not(HasSubstr("note"))));
}

TEST_F(Output, QuietPrintsResultsOnly) {
  CliResult tuned = Run({"--op", op_, "--trials", "4", "-q"});
  EXPECT_EQ(tuned.err, "") << tuned.Text();
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("operators and shapes"), HasSubstr("records saved in ")));
  CliResult run = Run({"run", package_, "-q"});
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(Lines(run.out), ElementsAre(StartsWith("output ")));
  EXPECT_EQ(Run({"verify", "--model", SmallModel(), "--data", SmallData(), "-q"}).Text(), "exit code 0\n");
  CliResult wrong = Run({"run", "/no/such.tar", "-q"});
  EXPECT_THAT(wrong.err, StartsWith("error: ")) << "errors are never silent";
  EXPECT_EQ(wrong.code, 1);
}

TEST_F(Output, TopFiveOfAClassification) {
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("net20.tar")}).code, 0);
  const std::vector<std::string> run = {"run", File("net20.tar"), "--input", "image=" + SmallData() + "/input_0.pb"};
  const Json output = JsonOf(run)[0]["outputs"].As<Json::Array>()->at(0);
  const Json::Array& top = *output["top"].As<Json::Array>();
  ASSERT_THAT(top, SizeIs(5));
  EXPECT_EQ(*top[0]["index"].As<int64_t>(), *output["max_at"].As<int64_t>());
  for (size_t i = 1; i < top.size(); ++i) EXPECT_LE(*top[i]["value"].Number(), *top[i - 1]["value"].Number());
  EXPECT_THAT(Run(run).out, HasSubstr("\n  top 5: " + std::to_string(*top[0]["index"].As<int64_t>()) + " ("));
  EXPECT_THAT(Run({"run", package_}).out, Not(HasSubstr("top 5"))) << "16 x 16 numbers are no scores";
}

TEST_F(Output, BenchStatesLatenciesAndThroughput) {
  const std::vector<std::string> bench = {"bench", package_, "--seconds", "0.05", "--wait", "0"};
  for (int streams : {1, 2}) {
    std::vector<std::string> command = bench;
    command.insert(command.end(), {"--threads", "2", "--streams", std::to_string(streams)});
    const Json line = JsonOf(command)[0];
    double before = 0;
    for (const char* name : {"min_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"}) {
      EXPECT_GE(*line[name].Number(), before) << name << line.Dump();
      before = *line[name].Number();
    }
    EXPECT_GE(*line["n"].As<int64_t>(), 5);
    EXPECT_EQ(*line["threads"].As<int64_t>(), 2);
    EXPECT_EQ(*line["streams"].As<int64_t>(), streams);
    EXPECT_EQ(*line["threads_per_stream"].As<int64_t>(), 2 / streams);
    EXPECT_FALSE(line["machine"]["model"].As<std::string>()->empty());
    // No stream makes more runs than its shortest latency allows.
    EXPECT_GT(*line["inferences_per_second"].Number(), 0);
    EXPECT_LE(*line["inferences_per_second"].Number(), 1.001e3 * streams / *line["min_ms"].Number()) << line.Dump();
  }
  EXPECT_THAT(Run(bench).out, AllOf(HasSubstr(" cores, L1 "), HasSubstr("p50 "), HasSubstr("p99 "),
                                    HasSubstr("\nthroughput  "), HasSubstr(" inferences/s (")));
  EXPECT_EQ(Run({"bench", package_, "--streams", "2", "--profile"}).code, 2);
}

}  // namespace
}  // namespace autotune::test
