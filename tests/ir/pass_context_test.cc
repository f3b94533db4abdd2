// Options that callers may give to passes, and instruments that observe passes.
#include "ir/pass_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ir/instruments.h"
#include "support/file.h"
#include "support/json.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr IntOption kWidth{"width", 8, 1, 64, "lanes"};
constexpr std::string_view kWays[] = {"fast", "small"};
constexpr TextOption kWay{"way", "fast", kWays, "what to prefer"};
const std::vector<PassTable> kTables = {{"first", {{"split"}, {"join", "it joins"}}, {&kWidth}},
                                        {"second", {{"unroll"}}, {&kWay}}};

std::string Refusal(Status status) { return status.ok() ? "accepted" : status.error().Text(); }

TEST(PassConfig, OptionsAreTyped) {
  PassConfig config;
  EXPECT_TRUE(config.SetOption("width=16", kTables).ok());
  EXPECT_TRUE(config.SetOption("way=small", kTables).ok());
  PassContext context(config);
  EXPECT_EQ(context.Get(kWidth), 16);
  EXPECT_EQ(context.Get(kWay), "small");
  EXPECT_EQ(PassContext().Get(kWidth), 8);
  EXPECT_EQ(PassContext().Get(kWay), "fast");
  for (std::string wrong : {"width=0", "width=65", "width=", "width=8x", "width= 8", "width=99999999999999999999"}) {
    std::string value = wrong.substr(6);
    EXPECT_EQ(Refusal(config.SetOption(wrong, kTables)), "pass option width takes 1 to 64, not '" + value + "'");
  }
  EXPECT_EQ(Refusal(config.SetOption("way=slow", kTables)), "pass option way takes fast or small, not 'slow'");
  EXPECT_EQ(Refusal(config.SetOption("width", kTables)), "pass option 'width': write NAME=VALUE");
  EXPECT_EQ(Refusal(config.SetOption("=3", kTables)), "pass option '=3': write NAME=VALUE");
  EXPECT_EQ(Refusal(config.SetOption("widht=8", kTables)),
            "unknown pass option 'widht' (hint: did you mean width?; hint: the options and their defaults are width=8, "
            "way=fast)");
  EXPECT_EQ(PassContext(config).Get(kWidth), 16) << "a refused option must not change the value";
}

TEST(PassConfig, NeededAndUnknownPassesAreNotDisabled) {
  PassConfig config;
  for (const char* pass : {"unroll", "split", "unroll"}) EXPECT_TRUE(config.Disable(pass, kTables).ok());
  EXPECT_THAT(config.disabled, ElementsAre("split", "unroll"));
  EXPECT_EQ(Refusal(config.Disable("join", kTables)), "pass join cannot be disabled: it joins");
  EXPECT_EQ(Refusal(config.Disable("splt", kTables)),
            "unknown pass 'splt' (hint: did you mean split?; hint: the passes that can be disabled are first: split; "
            "second: unroll)");
  PassContext context(config);
  EXPECT_TRUE(context.IsDisabled("split"));
  EXPECT_FALSE(context.IsDisabled("join"));
}

TEST(PassConfig, OnlyWhatChangesCodeIsInItsKey) {
  EXPECT_EQ(PassConfig().CodeKey(), "");
  EXPECT_EQ((PassConfig{.time = true, .verify = true, .dump = "d"}).CodeKey(), "");
  EXPECT_NE((PassConfig{.options = {{"a", "1"}}}).CodeKey(), (PassConfig{.options = {{"a", "2"}}}).CodeKey());
  EXPECT_NE((PassConfig{.disabled = {"a"}}).CodeKey(), (PassConfig{.disabled = {"b"}}).CodeKey());
}

TEST(PassConfig, CrossesToWorkers) {
  PassConfig config{.options = {{"a", "1"}}, .disabled = {"b"}, .time = true, .verify = true, .dump = "d"};
  PassConfig read = FromJson<PassConfig>(ToJson(config)).value();
  EXPECT_EQ(ToJson(read).Dump(), ToJson(config).Dump());
  EXPECT_EQ(read.CodeKey(), config.CodeKey());
}

const PrimFunc& SmallProgram() {
  static const PrimFunc f =
      test::Parse("func f(x: f32[8] input, y: f32[8] output) { for i in 8 { block b(v: S 8 = i) { y[v] = x[v] } } }");
  return f;
}

// Runs a pass that does nothing.
Status RunOne(const PassContext& context, std::string_view pass, std::string_view part = "") {
  TRY(context.Before(pass, PrimFuncView(SmallProgram(), part)));
  return context.After(pass, PrimFuncView(SmallProgram(), part));
}

class Noting : public PassInstrument {
 public:
  Noting(std::string name, std::vector<std::string>& notes) : name_(std::move(name)), notes_(notes) {}
  Status Before(std::string_view pass, const ProgramView&) override {
    notes_.push_back(name_ + " before " + std::string(pass));
    return {};
  }
  Status After(std::string_view pass, const ProgramView&) override {
    notes_.push_back(name_ + " after " + std::string(pass));
    if (pass == "bad") return Err("stop");
    return {};
  }

 private:
  std::string name_;
  std::vector<std::string>& notes_;
};

TEST(Instruments, NestAndEndThePipeline) {
  std::vector<std::string> notes;
  PassContext context;
  context.Add(std::make_shared<Noting>("a", notes));
  context.Add(std::make_shared<Noting>("b", notes));
  EXPECT_TRUE(RunOne(context, "good").ok());
  EXPECT_THAT(notes, ElementsAre("a before good", "b before good", "b after good", "a after good"));
  EXPECT_EQ(Refusal(RunOne(context, "bad")), "stop");
  EXPECT_EQ(notes.back(), "b after bad");
}

TEST(Instruments, InnerPassesCountForThemselves) {
  PassContext context(PassConfig{.time = true});
  const PrimFuncView view(SmallProgram());
  ASSERT_TRUE(context.Before("outer", view).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(context.Within("part").Before("inner", view).ok());
    usleep(20'000);
    ASSERT_TRUE(context.Within("part").After("inner", view).ok());
  }
  ASSERT_TRUE(context.After("outer", view).ok());
  PassTimes times = context.Times();
  EXPECT_EQ(times["outer"].runs, 1);
  EXPECT_EQ(times["inner"].runs, 2);
  EXPECT_GE(times["inner"].ms, 40);
  EXPECT_LT(times["outer"].ms, 20) << "the sleep belongs to the inner pass";
  context.AddTimes({{"inner", {3, 1.5}}});
  EXPECT_EQ(context.Times()["inner"].runs, 5);
  PassContext without;
  without.AddTimes(times);
  EXPECT_TRUE(without.Times().empty());
}

std::vector<std::string> FilesIn(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Dump : public ::testing::Test {
 protected:
  Dump() : folder_(fs::path(::testing::TempDir()) / ("dump_" + std::to_string(getpid()))) { fs::remove_all(folder_); }
  ~Dump() override { fs::remove_all(folder_); }
  const fs::path folder_;
};

TEST_F(Dump, HasAFileForEachPassAndAFolderForEachPart) {
  PassContext context(PassConfig{.dump = folder_.string()});
  for (const char* pass : {"one", "two"}) ASSERT_TRUE(RunOne(context, pass).ok());
  ASSERT_TRUE(RunOne(context, "one", "prepare").ok());
  ASSERT_TRUE(RunOne(context.Within("k0_conv"), "one").ok());
  EXPECT_THAT(FilesIn(folder_), ElementsAre("00_input.txt", "01_one.txt", "02_two.txt", "k0_conv/00_input.txt",
                                            "k0_conv/01_one.txt", "prepare/00_input.txt", "prepare/01_one.txt"));
  EXPECT_EQ(ReadFile((folder_ / "02_two.txt").string()).value(), PrimFuncView(SmallProgram()).Text());
}

TEST_F(Dump, ReplacesAnEarlierOneAndNothingElse) {
  PassContext before(PassConfig{.dump = folder_.string()});
  for (const char* pass : {"one", "two"}) ASSERT_TRUE(RunOne(before, pass).ok());
  ASSERT_TRUE(RunOne(before.Within("k0_conv"), "one").ok());
  ASSERT_TRUE(RunOne(before.Within("k1_conv"), "one").ok());
  ASSERT_TRUE(WriteFile((folder_ / "k1_conv" / "mine").string(), "").ok());
  fs::create_directories(folder_ / "other");
  for (const char* mine : {"notes.txt", "1_mine.txt", "other/01_mine.txt"})
    ASSERT_TRUE(WriteFile((folder_ / mine).string(), "").ok());
  ASSERT_TRUE(RunOne(PassContext(PassConfig{.dump = folder_.string()}), "three").ok());
  EXPECT_THAT(FilesIn(folder_), ElementsAre("00_input.txt", "01_three.txt", "1_mine.txt", "k1_conv/mine", "notes.txt",
                                            "other/01_mine.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "k0_conv"));
}

TEST_F(Dump, SaysThatItCannotWrite) {
  ASSERT_TRUE(WriteFile(folder_.string(), "a file").ok());
  const std::string inside = (folder_ / "x").string();
  EXPECT_EQ(Refusal(BeginDump(inside)), "cannot write the programs to " + inside + ": Not a directory");
  EXPECT_THAT(Refusal(RunOne(PassContext(PassConfig{.dump = inside}), "one")), HasSubstr(inside));
}

TEST(Instruments, VerifyRefusesWhatIsNotWellFormed) {
  PassContext context(PassConfig{.verify = true});
  EXPECT_TRUE(RunOne(context, "good").ok());
  PrimFunc broken = SmallProgram();
  broken.params.pop_back();  // the body writes this parameter
  EXPECT_TRUE(context.Before("bad", PrimFuncView(SmallProgram())).ok());
  EXPECT_THAT(Refusal(context.After("bad", PrimFuncView(broken))), HasSubstr("y"));
  EXPECT_NE(Refusal(PassContext(PassConfig{.verify = true}).Before("first", PrimFuncView(broken))), "accepted");
  EXPECT_TRUE(PassContext().Before("first", PrimFuncView(broken)).ok());
}

}  // namespace
}  // namespace autotune
