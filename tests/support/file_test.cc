#include "support/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

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
  EXPECT_THAT(ReadFile("/proc/self/status").value(), HasSubstr("Name:"));  // the kernel reports size 0 for this file
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

class ReplaceFileTest : public ::testing::Test {
 protected:
  ReplaceFileTest() { EXPECT_TRUE(mkdtemp(folder_.data())); }
  ~ReplaceFileTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }

 private:
  std::string folder_ = ::testing::TempDir() + "replace-file-XXXXXX";
};

TEST_F(ReplaceFileTest, AllOrNothing) {
  ASSERT_TRUE(ReplaceFile(File("a"), "old").ok());
  std::filesystem::create_symlink("a", File("link"));
  EXPECT_EQ(ReplaceFile(File("link"),
                        [&](int fd) -> Status {
                          TRY(WriteAll(fd, "half", "x"));
                          EXPECT_EQ(ReadFile(File("a")).value(), "old");
                          return Err("enough");
                        })
                .error()
                .Text(),
            "enough");
  EXPECT_EQ(ReadFile(File("a")).value(), "old");
  EXPECT_EQ(Names(), (std::set<std::string>{"a", "link"}));
  ASSERT_TRUE(ReplaceFile(File("link"), "new").ok());
  EXPECT_EQ(ReadFile(File("a")).value(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(File("link")));
  EXPECT_EQ(Names(), (std::set<std::string>{"a", "link"}));
}

TEST_F(ReplaceFileTest, DurablyToo) {
  ASSERT_TRUE(ReplaceFileDurably(File("a"), "old").ok());
  EXPECT_EQ(std::filesystem::status(File("a")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink("a", File("link"));
  ASSERT_TRUE(ReplaceFileDurably(File("link"), "new").ok());
  EXPECT_EQ(ReadFile(File("a")).value(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(File("link")));
  EXPECT_EQ(Names(), (std::set<std::string>{"a", "link"}));
  EXPECT_EQ(ReplaceFileDurably("/no/such/file", "x").error().Text(),
            "cannot write /no/such/file: No such file or directory");
  EXPECT_EQ(ReplaceFileDurably("/dev/full", "x").error().Text(), "cannot write /dev/full: it is not a regular file");
}

TEST_F(ReplaceFileTest, SaysWhyNot) {
  EXPECT_EQ(ReplaceFile("/no/such/file", "x").error().Text(), "cannot write /no/such/file: No such file or directory");
  EXPECT_EQ(ReplaceFile("/dev/full", "x").error().Text(), "cannot write /dev/full: it is not a regular file");
}

TEST_F(ReplaceFileTest, AKilledWriterLeavesNothing) {
  ASSERT_TRUE(ReplaceFile(File("a"), "old").ok());
  EXPECT_EXIT((void)ReplaceFile(File("a"),
                                [](int fd) {
                                  Status written = WriteAll(fd, "half", "x");
                                  kill(getpid(), SIGKILL);
                                  return written;
                                }),
              ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(ReadFile(File("a")).value(), "old");
  // On a file system without unnamed files, this call removes the killed process's file.
  ASSERT_TRUE(ReplaceFile(File("a"), "new").ok());
  EXPECT_EQ(Names(), std::set<std::string>{"a"});
}

TEST_F(ReplaceFileTest, RemovesWhatNobodyWritesAnyMore) {
  for (const char* name : {"a.tmp123", "a.tmp7", "a.tmp8", "a.tmp", "a.tmp12x", "b.tmp123"})
    ASSERT_TRUE(WriteFile(File(name), "").ok());
  UniqueFd writer(open(File("a.tmp7").c_str(), O_RDWR));
  ASSERT_EQ(flock(writer.get(), LOCK_EX), 0);
  ASSERT_TRUE(ReplaceFile(File("a"), "x").ok());
  EXPECT_EQ(Names(), (std::set<std::string>{"a", "a.tmp", "a.tmp12x", "a.tmp7", "b.tmp123"}));
}

TEST(UnnamedFile, IsReachedByItsDescriptor) {
  const std::string folder = ::testing::TempDir();
  UniqueFd fd = OpenUnnamedFile(folder).value();
  ASSERT_TRUE(WriteAll(fd.get(), "text", "x").ok());
  EXPECT_EQ(ReadFile(PathOfDescriptor(fd.get())).value(), "text");
  EXPECT_EQ(OpenUnnamedFile("/no/such").error().Text(), "cannot write into /no/such: No such file or directory");
  EXPECT_EQ(FolderOf("a.so"), ".");
  EXPECT_EQ(FolderOf("x/a.so"), "x");
  EXPECT_EQ(FolderOf("/a.so"), "/");
}

}  // namespace
}  // namespace autotune
