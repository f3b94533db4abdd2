// `autotune records` and `autotune replay` as users see them. The tests make their own records, for a product of two
// matrices with a schedule of one step.
#include <gmock/gmock.h>

#include "ir/text.h"
#include "records/open.h"
#include "schedule/trace.h"
#include "tests/tools/cli.h"
#include "tests/tuner/programs.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using test::ReadAll;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const std::string kTask = "7777aaaa" + std::string(24, '0'), kOtherTask = "7777bbbb" + std::string(24, '0');

class Records : public test::CliTest {
 protected:
  static Record Make(const std::string& task, double cost) {
    Record r;
    r.id = NewRecordId();
    r.task = task;
    r.alternative = "direct";
    r.func = ToText(test::Dense(16, 96, 64));
    r.trace = "parallel(dense_i)\n";
    r.target = Target::Parse("cpu").value().Text();
    r.device = "local";
    r.times = {cost, cost * 1.5};
    r.cost = cost;
    r.verified = true;
    r.run = "run";
    r.seed = 0xfedcba9876543210ULL;
    r.versions = {kIrTextVersion, kStepLanguageVersion, 1, 1};
    r.created_at = 1700000000123;
    r.facts["label"] = "dense [16,64]";
    return r;
  }
  static Record Failed(const std::string& task, TrialStatus status) {
    Record r = Make(task, 1);
    r.cost = 0;
    r.times = {};
    r.verified = false;
    r.status = status;
    r.error = "a \"reason\"";
    return r;
  }
  void Store(const std::vector<Record>& batch, const std::string& db = "") {
    auto store = OpenStore(db.empty() ? db_ : db);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    Status status = (*store)->Append(batch);
    ASSERT_TRUE(status.ok()) << status.error().Text();
  }
  int64_t Count(const std::string& db) { return OpenStore(db).value()->Count({}).value(); }
  // Returns the name of the program's outermost loop.
  static std::string Outermost(const PrimFunc& func) {
    std::string text = ToText(func);
    size_t at = text.find("for ") + 4;
    return text.substr(at, text.find(' ', at) - at);
  }
  void ExpectOneLine(const CliResult& result, const std::vector<std::string>& words, int code = 1) {
    EXPECT_EQ(result.code, code) << result.Text();
    EXPECT_THAT(Lines(result.err),
                ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
        << result.Text();
    for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
  }
};

TEST_F(Records, ExportedAndImportedTheyAreTheSame) {
  Store({Make(kTask, 1e-3), Make(kTask, 0.1 + 0.2), Failed(kOtherTask, TrialStatus::kRunCrashed)});
  ASSERT_TRUE(OpenStore(db_).value()->PutRun({"key", Json("state"), 5}).ok());
  CliResult exported = Run({"records", "export"});
  ASSERT_EQ(exported.code, 0) << exported.Text();
  EXPECT_THAT(Lines(exported.out), SizeIs(4));
  CliResult to_file = Run({"records", "export", "-o", File("all.jsonl")});
  EXPECT_THAT(to_file.out, HasSubstr("wrote 3 records"));
  EXPECT_EQ(ReadAll(File("all.jsonl")), exported.out);
  EXPECT_THAT(Lines(Run({"records", "export", "--task", kOtherTask}).out), SizeIs(1));

  std::string copy = File("copy.db");
  CliResult first = Run({"records", "import", File("all.jsonl"), "--db", copy});
  EXPECT_THAT(first.out, HasSubstr("3 stored, 0 known already")) << first.Text();
  CliResult second = Run({"records", "import", File("all.jsonl"), "--db", copy});
  EXPECT_THAT(second.out, HasSubstr("0 stored, 3 known already")) << second.Text();
  EXPECT_EQ(Run({"records", "export", "--db", copy}).out, exported.out);

  std::string merged = File("merged.db");
  Store({Make(kTask, 5e-4)}, merged);
  CliResult merge = Run({"records", "merge", db_, "--db", merged});
  EXPECT_THAT(merge.out, HasSubstr("3 stored, 0 known already")) << merge.Text();
  EXPECT_THAT(Run({"records", "merge", db_, "--db", merged}).out, HasSubstr("0 stored, 3 known already"));
  EXPECT_EQ(Count(merged), 4);
  EXPECT_EQ(OpenStore(merged).value()->GetRun("key").value()->updated_at, 5);
  EXPECT_EQ(Count(db_), 3);
}

TEST_F(Records, WhatIsNoRecordIsRefusedWithItsLine) {
  Store({Make(kTask, 1e-3)});
  std::string good = Run({"records", "export"}).out;
  std::string target = File("new.db");
  auto import = [&](const std::string& text) {
    return Run({"records", "import", Write("in.jsonl", text), "--db", target});
  };
  ExpectOneLine(import(good + "{}\n"), {"in.jsonl, line 2", "UUID"});
  ExpectOneLine(import(good + "\n[1]\n"), {"line 3", "not an object"});
  ExpectOneLine(import("{\"id\":"), {"line 1"});
  ExpectOneLine(import(std::string(100000, '[')), {"line 1"});
  ExpectOneLine(import(std::string("\0\xff\n", 3)), {"line 1"});
  std::string negative = good, status = good;
  negative.replace(negative.find("\"cost\":"), 7, "\"cost\":-");
  ExpectOneLine(import(negative), {"line 1", "cost"});
  status.replace(status.find("\"status\":\"ok\""), 13, "\"status\":\"fine\"");
  ExpectOneLine(import(status), {"line 1", "status"});
  ExpectOneLine(import("{\"run_state\":{}}"), {"line 1", "without a key"});
  EXPECT_FALSE(std::filesystem::exists(target)) << "a refused import must not create a database";
  ExpectOneLine(Run({"records", "import", "/no/such.jsonl"}), {"/no/such.jsonl"});
  ExpectOneLine(Run({"records", "import", folder_}), {folder_, "folder"});
  EXPECT_EQ(import(good).code, 0);
}

TEST_F(Records, WrongUsageAndMissingDatabases) {
  std::string missing = File("missing.db");
  for (const char* command : {"stats", "show", "export", "verify", "prune"})
    ExpectOneLine(Run({"records", command, "--db", missing}), {"no record database", missing});
  ExpectOneLine(Run({"records", "merge", missing}), {missing});
  ExpectOneLine(Run({"replay", "77", "--db", missing}), {missing});
  EXPECT_FALSE(std::filesystem::exists(missing));
  for (std::vector<std::string> arguments :
       std::vector<std::vector<std::string>>{{"records"},
                                             {"records", "lose"},
                                             {"records", "import"},
                                             {"records", "merge"},
                                             {"records", "prune", "--keep", "0"},
                                             {"replay"},
                                             {"replay", "77", "--print", "poem"}}) {
    EXPECT_EQ(Run(arguments).code, 2) << arguments.back();
  }
  Store({Make(kTask, 1e-3)});
  ExpectOneLine(Run({"records", "merge", db_}), {"the same database"});
}

TEST_F(Records, StatsAndShowTellWhatIsThere) {
  Record best = Make(kTask, 5e-4);
  Store({Make(kTask, 1e-3), best, Failed(kTask, TrialStatus::kRejected), Failed(kOtherTask, TrialStatus::kRunCrashed)});
  CliResult stats = Run({"records", "stats"});
  EXPECT_EQ(stats.code, 0) << stats.Text();
  EXPECT_THAT(stats.out, AllOf(HasSubstr("4 records: 3 trials (executed), 2 of them ran and are right"),
                               HasSubstr("2 tasks on 1 target; 1 without"), HasSubstr("rejected")));
  EXPECT_THAT(stats.out, Not(HasSubstr("wrong answer")));
  CliResult table = Run({"records", "show"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("7777aaaa "), HasSubstr("7777bbbb "), HasSubstr("0.500 ms")));
  EXPECT_THAT(table.out, AllOf(Not(HasSubstr("-mtriple")), Not(HasSubstr(kTask)), HasSubstr(" of ")))
      << "the table must describe the machine in words";
  CliResult verbose = Run({"records", "show", "--verbose"});
  EXPECT_THAT(verbose.out, AllOf(HasSubstr(best.target), HasSubstr(kTask), HasSubstr(best.id)));
  EXPECT_THAT(Run({"records", "show", "--task", "7777bbbb"}).out, Not(HasSubstr("7777aaaa")));
  for (const std::string& name : {best.id, best.id.substr(0, 35), kTask, kTask.substr(0, 31), std::string("7777a")}) {
    CliResult one = Run({"records", "show", name});
    EXPECT_THAT(one.out, AllOf(HasSubstr(best.id), HasSubstr("parallel("), HasSubstr("func dense"))) << one.Text();
  }
  Record elsewhere = Make(kTask, 1e-3);
  elsewhere.target += "9";  // a target with more cores
  Store({elsewhere});
  EXPECT_THAT(Run({"records", "show", "--task", kTask}).out, AllOf(HasSubstr("9 cores of "), HasSubstr(" of ")));
  ExpectOneLine(Run({"records", "show", "0-0"}), {"no record 0-0"});
  ExpectOneLine(Run({"records", "show", best.id.substr(0, 9)}), {"several records", best.id.substr(0, 9)});
  ExpectOneLine(Run({"records", "show", NewRecordId()}), {"no record"});
  ExpectOneLine(Run({"records", "show", kOtherTask}), {"no task"});
  ExpectOneLine(Run({"records", "show", "the best"}), {"neither"});
  Store({Make(kOtherTask, 1e-3)});
  ExpectOneLine(Run({"records", "show", "7777"}), {"2 tasks", "7777aaaa, 7777bbbb"});
}

TEST_F(Records, PruneSaysWhatItWouldDeleteAndDeletesThat) {
  std::vector<Record> batch;
  for (int i = 0; i < 5; ++i) {
    batch.push_back(Make(kTask, 1e-3 + 1e-4 * i));
    batch.back().trace += std::string(static_cast<size_t>(i), '\n');
  }
  batch.push_back(Failed(kOtherTask, TrialStatus::kRunCrashed));
  Store(batch);
  CliResult planned = Run({"records", "prune", "--keep", "2", "--dry-run"});
  EXPECT_THAT(planned.out, AllOf(HasSubstr("would delete 3 of 5"), HasSubstr("would delete 4 records; would keep 2")))
      << planned.Text();
  EXPECT_EQ(Count(db_), 6);
  CliResult pruned = Run({"records", "prune", "--keep", "2"});
  EXPECT_THAT(pruned.out, HasSubstr("deleted 4 records; kept 2")) << pruned.Text();
  EXPECT_EQ(Count(db_), 2);
  EXPECT_EQ(OpenStore(db_).value()->Best(kTask, batch[0].target).value()->id, batch[0].id);
  EXPECT_THAT(Run({"records", "prune", "--keep", "2"}).out, HasSubstr("deleted 0 records; kept 2"));
}

TEST_F(Records, VerifyTellsRightFromWrongAndBroken) {
  Record right = Make(kTask, 1e-3);
  right.trace = "parallel(" + Outermost(test::Dense(16, 96, 64)) + ")\n";
  Record elsewhere = right;
  elsewhere.id = NewRecordId();
  elsewhere.target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4";
  Store({right, elsewhere, Failed(kOtherTask, TrialStatus::kWrongAnswer)});
  CliResult good = Run({"records", "verify"});
  EXPECT_EQ(good.code, 0) << good.Text();
  EXPECT_THAT(good.out, HasSubstr("1 right, 0 wrong, 0 broken, 1 not run"));
  EXPECT_THAT(Run({"records", "verify", "--task", kTask, "--measure"}).out, HasSubstr("recorded 1.000 ms, now "));
  ExpectOneLine(Run({"records", "verify", "--task", "00"}), {"no record"});

  // This record, the fastest, computes another result than the task's direct alternative.
  Record wrong = right;
  wrong.id = NewRecordId();
  wrong.alternative = "clever";
  wrong.cost = 1e-4;
  size_t zero = wrong.func.find(" = 0.0");
  ASSERT_NE(zero, std::string::npos) << wrong.func;
  wrong.func.replace(zero, 6, " = 1.0");
  Store({wrong});
  CliResult found = Run({"records", "verify"});
  EXPECT_EQ(found.code, 3) << found.Text();
  EXPECT_THAT(found.out, AllOf(HasSubstr("WRONG    7777aaaa " + wrong.id), HasSubstr("elements differ"),
                               HasSubstr("0 right, 1 wrong, 0 broken, 1 not run")));

  // These records are a trace that does not replay and a program that does not parse.
  Record broken = right, nonsense = Make(kOtherTask, 1e-3);
  broken.id = NewRecordId();
  broken.cost = 1e-5;
  broken.trace = "parallel(no_such_loop)\n";
  nonsense.func = "func nonsense(";
  Store({broken, nonsense});
  found = Run({"records", "verify"});
  EXPECT_EQ(found.code, 3) << found.Text();
  EXPECT_THAT(found.out, AllOf(HasSubstr("BROKEN   7777aaaa " + broken.id), HasSubstr("no_such_loop"),
                               HasSubstr("0 right, 0 wrong, 2 broken, 1 not run")));
}

TEST_F(Records, ReplayPrintsEveryStage) {
  Record record = Make(kTask, 1e-3);
  std::string loop = Outermost(test::Dense(16, 96, 64));
  record.trace = "parallel(" + loop + ")\n";
  Store({record});
  auto print = [&](const std::string& what) {
    CliResult result = Run({"replay", record.id, "--print", what});
    EXPECT_EQ(result.code, 0) << what << result.Text();
    return result.out;
  };
  EXPECT_EQ(print("trace"), record.trace);
  EXPECT_THAT(print("ir"), AllOf(HasSubstr("block dense"), HasSubstr("for " + loop + " in 16 parallel")));
  EXPECT_THAT(print("lowered"), AllOf(HasSubstr("func dense"), Not(HasSubstr("block "))));
  EXPECT_THAT(print("llvm"), HasSubstr("define "));
  EXPECT_THAT(print("c"), AllOf(HasSubstr("int32_t dense("), HasSubstr("for (int64_t " + loop + " = begin;")));
  EXPECT_THAT(print("asm"), HasSubstr(".globl"));
  // 16 x 64 x 96 products are summed, with 2 operations each.
  EXPECT_THAT(print("features"),
              AllOf(HasSubstr("function.flops"), HasSubstr("196608 operations"), HasSubstr("block0.parallel"),
                    HasSubstr("16 iterations"), HasSubstr("features of schema")));
  EXPECT_EQ(Run({"replay", kTask, "--print", "ir"}).out, print("ir")) << "a task's id stands for its best record";

  Record broken = record;
  broken.id = NewRecordId();
  broken.trace = "parallel(no_such_loop)\n";
  Record later = record;
  later.id = NewRecordId();
  later.versions.step_language = kStepLanguageVersion + 1;
  Store({broken, later});
  ExpectOneLine(Run({"replay", broken.id}), {"no_such_loop", broken.id});
  ExpectOneLine(Run({"replay", later.id}), {"step language"});
  EXPECT_EQ(Run({"replay", later.id, "--print", "trace"}).code, 0);
  ExpectOneLine(Run({"replay", NewRecordId()}), {"no record"});
}

}  // namespace
}  // namespace autotune
