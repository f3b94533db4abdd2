// The options of commands that run passes.
#include <gmock/gmock.h>

#include "lower/lower.h"
#include "package/package.h"
#include "support/file.h"
#include "tests/tools/cli.h"
#include "tools/autotune/pass_options.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
using test::CliResult;
using test::Lines;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class PassesOfCommands : public test::CliTest {
 protected:
  // Runs `autotune compile` of the example into m.tar, without records.
  CliResult CompileWith(std::vector<std::string> arguments) {
    std::vector<std::string> all = {"compile", "--model", SmallModel(), "--no-records", "-o", File("m.tar")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(all);
  }
};

TEST_F(PassesOfCommands, WrongOnesAreOneLineAndWrongUsage) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> words;
  };
  for (const Case& c :
       std::vector<Case>{{{"--disable-pass", "simplfy"},
                          {"unknown pass 'simplfy'", "hint: did you mean simplify?\n", "lowering: split_prepare"}},
                         {{"--disable-pass", "flatten_buffers"},
                          {"pass flatten_buffers cannot be disabled: code generators take addresses"}},
                         {{"--disable-pass", "fuse"}, {"pass fuse cannot be disabled: ", "fuse_groups=none"}},
                         {{"--disable-pass", "unroll_limit"}, {"unknown pass 'unroll_limit'"}},
                         {{"--pass-option", "unrol_limit=3"},
                          {"unknown pass option 'unrol_limit'", "hint: did you mean unroll_limit?\n"}},
                         {{"--pass-option", "unroll_limit=0"}, {"unroll_limit takes 1 to 1048576, not '0'"}},
                         {{"--pass-option", "fuse_groups=some"}, {"fuse_groups takes all or none, not 'some'"}},
                         {{"--pass-option", "unroll_limit"}, {"write NAME=VALUE"}}}) {
    CliResult result = CompileWith(c.arguments);
    EXPECT_EQ(result.code, 2) << result.Text();
    EXPECT_THAT(Lines(result.err), Each(AnyOf(StartsWith("error: "), StartsWith("hint: ")))) << result.Text();
    for (const std::string& word : c.words) EXPECT_THAT(result.err, HasSubstr(word));
  }
  // A replay of a record runs no graph passes.
  CliResult replay = Run({"replay", "abc", "--print", "asm", "--disable-pass", "sink_reshapes"});
  EXPECT_EQ(replay.code, 2) << replay.Text();
  EXPECT_THAT(replay.err, HasSubstr("unknown pass 'sink_reshapes'"));
  // A replay that prints a program before lowering runs no passes at all.
  for (const std::string stage : {"trace", "ir", "features"}) {
    CliResult early = Run({"replay", "abc", "--print", stage, "--time-passes"});
    EXPECT_EQ(early.code, 2) << early.Text();
    EXPECT_THAT(early.err, HasSubstr("--print " + stage + " runs no passes: options of passes need --print lowered, "));
  }
  EXPECT_FALSE(fs::exists(File("m.tar")));
}

TEST_F(PassesOfCommands, AFolderThatCannotBeWrittenIsOneLine) {
  Write("file", "");
  CliResult result = CompileWith({"--dump-ir", File("file/dump")});
  EXPECT_EQ(result.code, 1) << result.Text();
  EXPECT_THAT(Lines(result.err),
              ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
      << result.Text();
  EXPECT_THAT(result.err, HasSubstr("cannot write the programs to " + File("file/dump") + ": Not a directory"));
}

TEST_F(PassesOfCommands, TimesAndDumpsLeaveThePackageAsItIs) {
  ASSERT_EQ(CompileWith({}).code, 0);
  const std::string library = ReadPackage(File("m.tar")).value().library;
  CliResult result = CompileWith({"--time-passes", "--verify-passes", "--dump-ir", File("dump")});
  ASSERT_EQ(result.code, 0) << result.Text();
  EXPECT_TRUE(ReadPackage(File("m.tar")).value().library == library);
  double share = 0;
  int rows = 0;
  bool table = false;
  for (const std::string& line : Lines(result.out)) {
    char name[64];
    int runs = 0;
    double ms = 0, percent = 0;
    if (line.starts_with("pass ")) table = true;
    if (!table || std::sscanf(line.c_str(), "%63s %d %lf %lf %%", name, &runs, &ms, &percent) != 4) continue;
    EXPECT_GT(runs, 0) << line;
    share += percent;
    ++rows;
  }
  int passes = 0;
  for (const PassTable& t : tools::CompilePassTables()) {
    if (t.pipeline != GpuPassTable().pipeline)
      passes += static_cast<int>(t.passes.size());  // passes for GPUs do not run here
  }
  EXPECT_EQ(rows, passes) << result.out;
  EXPECT_NEAR(share, 100, 0.05 * rows) << result.out;
  EXPECT_TRUE(fs::exists(File("dump/01_drop_dead_code.txt")));
  EXPECT_TRUE(fs::exists(File("dump/k0_conv2d_add_relu/01_split_prepare.txt")));
  EXPECT_THAT(CompileWith({}).out, Not(HasSubstr("share")));

  // The dump of another network replaces the old dump.
  ASSERT_EQ(
      Run({"compile", "--op", "matmul:8,8,8", "--no-records", "-o", File("o.tar"), "--dump-ir", File("dump")}).code, 0);
  EXPECT_FALSE(fs::exists(File("dump/k0_conv2d_add_relu")));
  EXPECT_TRUE(fs::exists(File("dump/k0_matmul/01_split_prepare.txt")));
}

TEST_F(PassesOfCommands, VerifyFindsOutputsRightWithoutAPass) {
  for (const std::vector<std::string>& choice : std::vector<std::vector<std::string>>{
           {"--disable-pass", "hoist_guards"},
           {"--disable-pass", "fold_constants", "--disable-pass", "split_prepare"},
           {"--pass-option", "fuse_groups=none", "--pass-option", "unroll_limit=64"}}) {
    std::vector<std::string> arguments = {"verify", "--model", SmallModel(), "--data", SmallData()};
    arguments.insert(arguments.end(), choice.begin(), choice.end());
    CliResult result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.Text();
    EXPECT_THAT(result.out, StartsWith("ok: ")) << result.Text();
  }
}

// Records hold results of default passes. A compile with other options finds them, and a replay of a record applies the
// options.
TEST_F(PassesOfCommands, RecordsAreThoseOfDefaultPasses) {
  ASSERT_EQ(Run({"tune", "--op", "matmul:32,32,32", "--trials", "4"}).code, 0);
  // Compiles with these options, and returns the count of tuned kernels from the output, such as "): 1 of 1 kernel".
  auto tuned_of = [&](std::vector<std::string> choice) {
    std::vector<std::string> arguments = {"compile", "--op", "matmul:32,32,32", "-o", File("o.tar")};
    arguments.insert(arguments.end(), choice.begin(), choice.end());
    CliResult compiled = Run(arguments);
    EXPECT_EQ(compiled.code, 0) << compiled.Text();
    EXPECT_THAT(compiled.out, HasSubstr("kernel tuned")) << compiled.Text();
    return compiled.out.substr(compiled.out.find("): "), compiled.out.find(" tuned") - compiled.out.find("): "));
  };
  EXPECT_EQ(tuned_of({"--disable-pass", "hoist_guards"}), tuned_of({}));
  CliResult shown = Run({"records", "show"});
  ASSERT_EQ(shown.code, 0) << shown.Text();
  const std::string id = Lines(shown.out).at(2).substr(0, 8);  // the first line after the machine and the headings
  CliResult plain = Run({"replay", id, "--print", "lowered"});
  ASSERT_EQ(plain.code, 0) << shown.out << plain.Text();
  CliResult dumped = Run({"replay", id, "--print", "lowered", "--dump-ir", File("dump"), "--time-passes"});
  ASSERT_EQ(dumped.code, 0) << dumped.Text();
  EXPECT_THAT(dumped.out, AllOf(HasSubstr("expand_math"), HasSubstr("share")));
  const std::vector<PassRow>& rows = tools::LoweringPassTables()[0].passes;
  const std::string last = std::to_string(rows.size()) + "_" + std::string(rows.back().name) + ".txt";
  EXPECT_THAT(plain.out, HasSubstr(ReadFile(File("dump/" + last)).value()));
  CliResult without = Run({"replay", id, "--print", "lowered", "--disable-pass", "merge_guards", "--time-passes"});
  EXPECT_THAT(without.out, AllOf(HasSubstr("hoist_guards"), Not(HasSubstr("merge_guards")))) << without.Text();
  CliResult source = Run({"replay", id, "--print", "c", "--disable-pass", "merge_guards", "--time-passes"});
  EXPECT_EQ(source.code, 0) << source.Text();
  EXPECT_THAT(source.out, AllOf(HasSubstr("#include"), HasSubstr("hoist_guards"), Not(HasSubstr("merge_guards"))));
  EXPECT_THAT(Run({"replay", id, "--print", "c"}).out, AllOf(HasSubstr("#include"), Not(HasSubstr("hoist_guards"))));
}

// The help text and the documents name all passes and options of the tables.
TEST_F(PassesOfCommands, HelpAndDocumentsNameThemAll) {
  const std::string help = Run({"compile", "--help"}).out;
  const std::string document = ReadFile(std::string(AUTOTUNE_SOURCE_DIR) + "/docs/cli.md").value();
  for (const PassTable& table : tools::CompilePassTables()) {
    for (const PassRow& row : table.passes) {
      EXPECT_THAT(document, HasSubstr("`" + std::string(row.name) + "`"));
      if (row.needed.empty()) {
        EXPECT_THAT(help, HasSubstr("  " + std::string(row.name) + " (" + std::string(table.pipeline)));
      }
    }
    for (const PassOption& option : table.options) {
      EXPECT_THAT(document, HasSubstr("`" + DefaultText(option) + "`"));
      EXPECT_THAT(help, HasSubstr("  " + DefaultText(option) + "  "));
    }
  }
  EXPECT_THAT(help, Not(HasSubstr("flatten_buffers")));
  EXPECT_THAT(Run({"replay", "--help"}).out, AllOf(HasSubstr("unroll_limit=4096"), Not(HasSubstr("fuse_groups"))));
}

}  // namespace
}  // namespace autotune
