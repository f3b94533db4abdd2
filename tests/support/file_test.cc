#include "support/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace autotune {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ReadFile, TheBytesAsTheyAre) {
  std::string path = ::testing::TempDir() + "file_test_" + std::to_string(getpid());
  for (const std::string& bytes : {std::string(), std::string("a\r\n\0b\xff", 6), std::string(1 << 20, 'x')}) {
    std::ofstream(path, std::ios::binary) << bytes;
    Result<std::string> read = ReadFile(path);
    ASSERT_TRUE(read.ok()) << read.error().Text();
    EXPECT_EQ(*read, bytes);
  }
  std::filesystem::remove(path);
  EXPECT_THAT(ReadFile("/proc/self/status").value(), HasSubstr("Name:"));  // whose size is said to be 0
}

TEST(ReadFile, SaysWhyNot) {
  EXPECT_EQ(ReadFile("/no/such/file").error().Text(), "cannot read /no/such/file: No such file or directory");
  EXPECT_THAT(ReadFile(::testing::TempDir()).error().Text(), EndsWith("it is a directory"));
}

TEST(WriteFile, ReplacesTheBytes) {
  std::string path = ::testing::TempDir() + "file_test_" + std::to_string(getpid());
  for (const std::string& bytes : {std::string(1 << 20, 'x'), std::string("a\r\n\0b\xff", 6), std::string()}) {
    ASSERT_TRUE(WriteFile(path, bytes).ok());
    EXPECT_EQ(ReadFile(path).value(), bytes);
  }
  std::filesystem::remove(path);
}

TEST(WriteFile, SaysWhyNot) {
  EXPECT_EQ(WriteFile("/no/such/file", "x").error().Text(), "cannot write /no/such/file: No such file or directory");
  EXPECT_EQ(WriteFile("/dev/full", "x").error().Text(), "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace autotune
