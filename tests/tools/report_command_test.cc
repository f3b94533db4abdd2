// `autotune report` and `autotune compare` as users see them.
#include <gmock/gmock.h>

#include "records/open.h"
#include "tests/tools/cli.h"
#include "tools/autotune/report/page.h"

namespace autotune {
namespace {

using test::CliResult;
using test::ReadAll;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ReportCommand : public test::CliTest {
 protected:
  std::string Package(const std::string& name) {
    EXPECT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File(name)}).code, 0);
    return File(name);
  }
  Json JsonOf(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const CliResult result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0) << result.err;
    const Result<Json> json = Json::Parse(result.out);
    EXPECT_TRUE(json.ok()) << result.out;
    return json.ok() ? *json : Json();
  }
  // Expects one line that says why, and the exit code.
  void ExpectRefusal(const std::vector<std::string>& arguments, const std::string& why, int code = 1) {
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.Text();
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(why)));
    EXPECT_EQ(result.out, "");
  }
};

const Json::Array& KernelsOf(const Json& report) { return *report["kernels"].As<Json::Array>(); }

TEST_F(ReportCommand, WritesThePageWithTheNumbersOfItsJson) {
  const std::string package = Package("my net.tar"), page = File("r.html");
  const CliResult result = Run({"report", package, "--seconds", "0.1", "-o", page, "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Result<Json> embedded = tools::report::DataOfPage(ReadAll(page)), printed = Json::Parse(result.out);
  ASSERT_TRUE(embedded.ok() && printed.ok());
  EXPECT_EQ(*embedded, *printed);
  ASSERT_EQ(KernelsOf(*printed).size(), static_cast<size_t>(test::kSmallTasks));
  double share = 0;
  for (const Json& kernel : KernelsOf(*printed)) {
    share += *kernel["share"].Number();
    EXPECT_FALSE(kernel["why"]["sentence"].IsNull());
    EXPECT_FALSE(kernel["time"]["low_us"].IsNull());
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_GT(*(*printed)["time"]["median_us"].Number(), 0);
  EXPECT_EQ(*(*printed)["command"].As<std::string>(),
            "autotune report '" + package + "' --output " + page + " --seconds 0.1 --json");
  // A report can be drawn again from either form.
  test::CliTest::Write("r.json", result.out);
  for (const std::string& form : {page, File("r.json")}) {
    EXPECT_EQ(Run({"report", form, "-o", File("again.html"), "-q"}).code, 0);
    EXPECT_EQ(*tools::report::DataOfPage(ReadAll(File("again.html"))), *printed);
  }
}

TEST_F(ReportCommand, ShowsWhatTheDatabaseKnows) {
  ASSERT_EQ(Run({"--model", SmallModel(), "--trials", "12", "-o", File("m.tar"), "-q"}).code, 0);
  const Json report = JsonOf({"report", File("m.tar"), "--no-run"});
  std::map<std::string, Json> shown;
  for (const std::string& line : test::Lines(Run({"records", "show", "--json"}).out)) {
    const Json row = *Json::Parse(line);
    shown[*row["hash"].As<std::string>()] = row;
  }
  ASSERT_EQ(shown.size(), KernelsOf(report).size());
  for (const Json& kernel : KernelsOf(report)) {
    const Json &row = shown.at(*kernel["task"].As<std::string>()), &history = kernel["history"];
    EXPECT_EQ(history["records"], row["records"]);
    EXPECT_EQ(history["trials"], row["trials"]);
    EXPECT_EQ(history["best_record"], row["best_record"]);
    EXPECT_DOUBLE_EQ(*history["best_us"].Number(), *row["best_ms"].Number() * 1e3);
    EXPECT_TRUE(kernel["time"].IsNull()) << "--no-run measures nothing";
  }
  const Json database = JsonOf({"report", "--db", db_, "--no-run"});
  EXPECT_EQ(*database["kind"].As<std::string>(), "database");
  ASSERT_EQ(KernelsOf(database).size(), shown.size());
  for (const Json& kernel : KernelsOf(database))
    EXPECT_DOUBLE_EQ(*kernel["time"]["median_us"].Number(), *kernel["history"]["best_us"].Number());
}

TEST_F(ReportCommand, CompilesAModel) {
  const Json report = JsonOf({"report", SmallModel(), "--no-run"});
  EXPECT_EQ(*report["name"].As<std::string>(), "small");
  EXPECT_EQ(KernelsOf(report).size(), static_cast<size_t>(test::kSmallTasks));
}

TEST_F(ReportCommand, RefusesWhatItCannotReadOrWrite) {
  const std::string package = Package("m.tar"), page = File("r.html");
  ExpectRefusal({"report", File("none.tar"), "-o", page}, "none.tar: No such file");
  ExpectRefusal({"report", test::CliTest::Write("text", "words"), "-o", page}, "is neither a package");
  ExpectRefusal({"report", test::CliTest::Write("cut.tar", ReadAll(package).substr(0, 5000)), "-o", page}, "cut.tar");
  ExpectRefusal({"report", package, "-o", File("no folder/r.html")}, "there is no folder");
  ExpectRefusal({"report", package, "-o", package}, "would be lost");
  const std::string records = test::CliTest::Write("records.db", "rows");
  ASSERT_EQ(setenv("AUTOTUNE_DB", records.c_str(), 1), 0);
  ExpectRefusal({"report", package, "--no-run", "-o", records}, "would be lost");
  EXPECT_EQ(ReadAll(records), "rows");
  ASSERT_EQ(setenv("AUTOTUNE_DB", File("others.db").c_str(), 1), 0);
  ExpectRefusal({"report", package, "-o", "/dev/full"}, "not a regular file");
  ExpectRefusal({"report", package}, "give -o FILE.html", 2);
  ExpectRefusal({"report", "-o", page}, "give a package, a model", 2);
  ExpectRefusal({"report", package, "--op", "matmul:8,8,8", "-o", page}, "give one of", 2);
  ExpectRefusal({"report", "--db", File("none.db"), "-o", page}, "no record database");
  ExpectRefusal({"report", "--db", File("none.db"), "--seconds", "1", "-o", page}, "not measured again", 2);
  const std::string drawn = test::CliTest::Write("drawn.json", "{\"kind\": \"network\"}");
  ExpectRefusal({"report", drawn, "--threads", "1", "-o", page}, "a report is drawn as it is", 2);
  ExpectRefusal({"compare", drawn, drawn, "--seconds", "1"}, "neither is a package", 2);
  ASSERT_TRUE(OpenStore(File("empty.db")).ok());
  ExpectRefusal({"report", "--db", File("empty.db"), "-o", page}, "the database has no records");
  ExpectRefusal({"report", test::CliTest::Write("other.json", "{\"kind\": \"weather\"}"), "-o", page}, "is no report");
  ExpectRefusal({"report", test::CliTest::Write("new.json", "{\"kind\": \"network\", \"format\": 99}"), "-o", page},
                "newer version");
  EXPECT_FALSE(std::filesystem::exists(page));
}

TEST_F(ReportCommand, ComparesPackagesInTurns) {
  const std::string before = Package("a.tar"), after = Package("b.so");
  const Json comparison = JsonOf({"compare", before, after, "--seconds", "0.2", "-o", File("c.html")});
  EXPECT_EQ(*comparison["in_turns"].As<bool>(), true);
  EXPECT_EQ(comparison["changes"].As<Json::Array>()->size(), static_cast<size_t>(test::kSmallTasks));
  for (const Json& change : *comparison["changes"].As<Json::Array>()) {
    EXPECT_FALSE(*change["other_schedule"].As<bool>());
    EXPECT_LE(*change["speedup"]["low"].Number(), *change["speedup"]["median"].Number());
  }
  EXPECT_EQ(*tools::report::DataOfPage(ReadAll(File("c.html"))), comparison);
  ExpectRefusal({"compare", before, File("none.tar")}, "none.tar");
  ExpectRefusal({"compare", before, SmallModel()}, "compile the model first");
  ExpectRefusal({"compare", File("c.html"), before}, "but a comparison of two");
  ExpectRefusal({"compare", before}, "after", 2);
}

TEST_F(ReportCommand, ComparesReportsAndDatabases) {
  const std::string package = Package("a.tar");
  ASSERT_EQ(Run({"report", package, "--seconds", "0.1", "-o", File("a.html"), "-q"}).code, 0);
  const CliResult same = Run({"compare", File("a.html"), File("a.html")});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, AllOf(HasSubstr("1.000"), HasSubstr("(same)"), HasSubstr("at different times")));
  ASSERT_EQ(Run({"--op", "matmul:8,8,8", "--trials", "4", "-q"}).code, 0);
  const CliResult databases = Run({"compare", db_, db_});
  EXPECT_EQ(databases.code, 0) << databases.err;
  EXPECT_THAT(databases.out, AllOf(HasSubstr("matmul"), HasSubstr("by the best record"), Not(HasSubstr("only in"))));
  ExpectRefusal({"compare", File("a.html"), db_}, "different meanings");
}

}  // namespace
}  // namespace autotune
