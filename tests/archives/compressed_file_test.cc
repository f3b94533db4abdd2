#include "archives/compressed_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "support/file.h"

namespace autotune {
namespace {

std::string Path(const std::string& name) { return testing::TempDir() + "/compressed_file_" + name; }

TEST(CompressedFile, ComesBackAndIsSmaller) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i % 100) + "\n";
  ASSERT_TRUE(WriteCompressedFile(Path("a"), text).ok());
  EXPECT_LT(std::filesystem::file_size(Path("a")), text.size() / 10);
  Result<std::string> read = ReadCompressedFile(Path("a"));
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, text);
}

TEST(CompressedFile, NothingAndPlainTextAreRead) {
  ASSERT_TRUE(WriteCompressedFile(Path("empty"), "").ok());
  EXPECT_EQ(ReadCompressedFile(Path("empty")).value(), "");
  std::ofstream(Path("plain")) << "plain\n";
  EXPECT_EQ(ReadCompressedFile(Path("plain")).value(), "plain\n");
}

TEST(CompressedFile, RefusesWhatIsDamagedMissingOrTooLarge) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 10007) + " ";
  ASSERT_TRUE(WriteCompressedFile(Path("whole"), text).ok());
  std::string bytes = ReadFile(Path("whole")).value();
  std::ofstream(Path("cut"), std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  for (const std::string& name : {Path("cut"), Path("missing")}) {
    Result<std::string> read = ReadCompressedFile(name);
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_THAT(read.error().Text(), testing::HasSubstr(name));
  }
  EXPECT_FALSE(ReadCompressedFile(Path("whole"), 1000).ok());
  EXPECT_TRUE(ReadCompressedFile(Path("whole"), static_cast<int64_t>(text.size())).ok());
}

TEST(CompressedFile, AFailedWriteNamesTheFileAndLeavesNothing) {
  Status written = WriteCompressedFile("/nonexistent/folder/file", "x");
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().Text(), testing::HasSubstr("/nonexistent/folder/file"));
}

}  // namespace
}  // namespace autotune
