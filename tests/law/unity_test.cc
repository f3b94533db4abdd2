// Files that are compiled together share no private name (cmake/unity.awk).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/read.h"

namespace autotune::law {
namespace {

using testing::HasSubstr;
using testing::Not;

class Unity : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  void Write(const std::string& name, const std::string& private_code) {
    std::ofstream(folder_ / name) << "namespace a {\nnamespace {\n" + private_code +
                                         "}  // namespace\n\nint Public();\n}\n";
  }

  // Returns the number of groups into which a.cc and b.cc are divided.
  std::string Groups(const std::string& a, const std::string& b) {
    Write("a.cc", a);
    Write("b.cc", b);
    return Run("-v per_group=8", "a.cc b.cc");
  }

  std::string Run(const std::string& options, const std::string& files) {
    std::string command = "cd '" + folder_.string() + "' && awk " + options +
                          " -f '" AUTOTUNE_SOURCE_DIR "/cmake/unity.awk' " + files + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
    pclose(pipe);
    return output;
  }

  // Tests may run in parallel, so each has its own folder.
  const std::filesystem::path folder_ = std::filesystem::path(AUTOTUNE_BINARY_DIR "/tests/unity_test") /
                                        testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Unity, EqualPrivateNamesAreInDifferentGroups) {
  EXPECT_EQ(Groups("int Helper() { return 1; }\n", "int Helper() { return 2; }\n"), "2\n");
  EXPECT_EQ(Groups("struct Part {\n};\n", "enum class Part { kA };\n"), "2\n");
  EXPECT_EQ(Groups("class Part final : public Base {\n};\n", "using Part = int;\n"), "2\n");
  EXPECT_EQ(Groups("constexpr int kA = 1, kB = 2;\n", "constexpr double kB = 3;\n"), "2\n");
  EXPECT_EQ(Groups("const int kTable[] = {1};\n", "const int kTable[] = {2};\n"), "2\n");
  EXPECT_EQ(Groups("using Part = int;\n", "using Part = char;\n"), "2\n");
  EXPECT_EQ(Groups("const char* kText = R\"(\na\n)\";\nint Helper();\n", "int Helper();\n"), "2\n");
  EXPECT_EQ(Groups("template <class T>\nstd::vector<T> Helper(T a) {\n}\n", "Result<int> Helper();\n"), "2\n");
}

TEST_F(Unity, OtherNamesShareAGroup) {
  EXPECT_EQ(Groups("int Helper() { return 1; }\n", "int Other() { return Helper2(1); }\n"), "1\n");
  EXPECT_EQ(Groups("struct A {\n  int same = 1;\n};\n", "struct B {\n  int same = 2;\n};\n"), "1\n");
  EXPECT_EQ(Groups("AUTOTUNE_ENUM(A, \"a\")\n", "AUTOTUNE_ENUM(B, \"b\")\n"), "1\n");
  EXPECT_EQ(Groups("using te::Tensor;\n", "using te::Tensor;\n"), "1\n");
  EXPECT_EQ(Groups("using Loop = View::Loop;\n", "using Loop = View::Loop;\n"), "1\n") << "C++ allows to repeat it";
  EXPECT_EQ(Groups("static_assert(true);\n", "static_assert(true);\n"), "1\n");
  EXPECT_EQ(Groups("const char* kA = R\"(\nsplit\n)\";\n", "const char* kB = R\"(\nsplit\n)\";\n"), "1\n") << "text";
  EXPECT_EQ(Groups("void A::Run() {\n}\n", "void B::Run() {\n}\n"), "1\n") << "members of two classes do not conflict";
}

TEST_F(Unity, GroupsAreWrittenOnceAndNoLargerThanAllowed) {
  for (const char* name : {"a.cc", "b.cc", "c.cc"}) Write(name, "");
  EXPECT_EQ(Run("-v per_group=2", "a.cc b.cc c.cc"), "2\n");
  EXPECT_EQ(Run("-v per_group=2 -v dir=. -v groups=3", "a.cc b.cc c.cc"), "");
  EXPECT_THAT(test::ReadAll(folder_ / "unity_0.cc"), HasSubstr("#include \"a.cc\"\n#include \"b.cc\"\n"));
  EXPECT_THAT(test::ReadAll(folder_ / "unity_1.cc"), HasSubstr("#include \"c.cc\"\n"));
  EXPECT_THAT(test::ReadAll(folder_ / "unity_2.cc"), Not(HasSubstr("#include")));
  const auto written = std::filesystem::last_write_time(folder_ / "unity_0.cc");
  EXPECT_EQ(Run("-v per_group=2 -v dir=. -v groups=3", "a.cc b.cc c.cc"), "");
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "unity_0.cc"), written)
      << "an unchanged group must not be written again";
}

TEST_F(Unity, GroupsHaveEqualSizes) {
  const std::string five = "a.cc b.cc c.cc d.cc e.cc";
  for (const char* name : {"a.cc", "b.cc", "c.cc", "d.cc", "e.cc"}) Write(name, "");
  EXPECT_EQ(Run("-v per_group=4", five), "1\n") << "a second group would have one file";
  EXPECT_EQ(Run("-v per_group=3 -v dir=. -v groups=2", five), "");
  EXPECT_THAT(test::ReadAll(folder_ / "unity_1.cc"), HasSubstr("#include \"d.cc\"\n#include \"e.cc\"\n"));
}

TEST_F(Unity, TooFewGroupsAreAnError) {
  Write("a.cc", "int Helper();\n");
  Write("b.cc", "int Helper();\n");
  EXPECT_THAT(Run("-v per_group=8 -v dir=. -v groups=1", "a.cc b.cc"), HasSubstr("run cmake again"));
}

}  // namespace
}  // namespace autotune::law
