// The cache of prepared packages: a file that was stored is found, and any other file counts as none.
#include "package/prepared_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "support/file.h"
#include "support/unique_fd.h"
#include "tests/read.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PreparedCacheFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/prepared-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  PreparedCache Open(int64_t most_bytes = PreparedCache::kMostBytes) const {
    return PreparedCache::Open(folder_ + "/cache", most_bytes).value();
  }
  void Store(const PreparedCache& cache) const {
    const Status stored = cache.Store("key", "index", {"data", "", "more"});
    ASSERT_TRUE(stored.ok()) << stored.error().Text();
  }
  // Changes the file of the key, and expects that it is not used and removed.
  void ExpectRefused(const std::function<void(const std::string& path)>& change) const {
    const PreparedCache cache = Open();
    Store(cache);
    ASSERT_TRUE(cache.Find("key"));
    change(cache.PathOf("key"));
    EXPECT_FALSE(cache.Find("key"));
    EXPECT_FALSE(fs::exists(fs::symlink_status(cache.PathOf("key"))));
    Store(cache);  // and it can be made again
    EXPECT_TRUE(cache.Find("key"));
  }
  static void Flip(const std::string& path, int64_t at) {
    std::string bytes = test::ReadAll(path);
    bytes[static_cast<size_t>(at)] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string NewFile(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name) << bytes;
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(PreparedCacheFiles, WhatWasStoredIsFound) {
  const PreparedCache cache = Open();
  EXPECT_FALSE(cache.Find("key"));
  Store(cache);
  const auto found = cache.Find("key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, "index");
  EXPECT_EQ(found->data, "datamore");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found->data.data()) % (2 << 20), 0u);
  EXPECT_FALSE(cache.Find("other key"));
  struct stat info {};
  ASSERT_EQ(stat(cache.PathOf("key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  fs::remove(cache.PathOf("key"));
  EXPECT_EQ(found->data, "datamore");  // the mapping stays
}

TEST_F(PreparedCacheFiles, AFileThatIsNotWhatWasStoredIsRefused) {
  constexpr int64_t kHeaderBytes = 40;
  for (int64_t at : {0, 8, 16, 24, 32, 33, 40, 42, 43, 47}) {
    SCOPED_TRACE(at);
    ExpectRefused([&](const std::string& path) { Flip(path, at); });
  }
  ExpectRefused([](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); });
  ExpectRefused([](const std::string& path) { fs::resize_file(path, fs::file_size(path) + 1); });
  ExpectRefused([](const std::string& path) { fs::resize_file(path, kHeaderBytes); });
  ExpectRefused([](const std::string& path) { fs::resize_file(path, 0); });
  ExpectRefused([&](const std::string& path) {
    fs::rename(Open().PathOf("key"), path);
    Flip(path, 1);
  });
}

TEST_F(PreparedCacheFiles, AFileThatOthersMayHaveWrittenIsRefused) {
  for (mode_t mode : {0640, 0602, 0644, 0660})
    ExpectRefused([&](const std::string& path) { ASSERT_EQ(chmod(path.c_str(), mode), 0); });
  ExpectRefused([&](const std::string& path) {  // a link to a good file
    fs::rename(path, folder_ + "/elsewhere");
    fs::create_symlink(folder_ + "/elsewhere", path);
  });
  fs::remove(folder_ + "/elsewhere");
  ExpectRefused([&](const std::string& path) { fs::create_hard_link(path, folder_ + "/second name"); });
  ExpectRefused([&](const std::string& path) {
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  });
  if (geteuid() == 0) ExpectRefused([](const std::string& path) { ASSERT_EQ(chown(path.c_str(), 1, 1), 0); });
  // The file of one key under the name of another.
  const PreparedCache cache = Open();
  Store(cache);
  fs::rename(cache.PathOf("key"), cache.PathOf("yek"));
  EXPECT_FALSE(cache.Find("yek"));
}

TEST_F(PreparedCacheFiles, AFolderThatOthersMayEnterIsRefused) {
  Open();
  ASSERT_EQ(chmod((folder_ + "/cache").c_str(), 0750), 0);
  EXPECT_FALSE(PreparedCache::Open(folder_ + "/cache").ok());
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_FALSE(PreparedCache::Open(folder_ + "/file").ok());
}

TEST_F(PreparedCacheFiles, TheLimitHolds) {
  constexpr int64_t kMega = int64_t{1} << 20;
  const PreparedCache cache = Open(9 * kMega);  // each file takes 2 MiB and its data
  const std::string data(1000, 'x');
  for (int i = 0; i < 6; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_TRUE(cache.Store(key, "", {data}).ok());
    const timespec used[2] = {{1000 + i, 0}, {i == 0 ? 5000 : 1000 + i, 0}};  // key 0 was used last
    ASSERT_EQ(utimensat(AT_FDCWD, cache.PathOf(key).c_str(), used, 0), 0);
  }
  EXPECT_TRUE(fs::exists(cache.PathOf("key 0")));
  EXPECT_FALSE(fs::exists(cache.PathOf("key 1")));
  EXPECT_FALSE(fs::exists(cache.PathOf("key 2")));
  EXPECT_TRUE(fs::exists(cache.PathOf("key 5")));
  const Status large = cache.Store("large", "", {std::string(static_cast<size_t>(kMega), 'x')});
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.error().Text(), HasSubstr("too large for the cache"));
}

TEST_F(PreparedCacheFiles, OneProcessMakesAFile) {
  const PreparedCache cache = Open();
  UniqueFd other(open((folder_ + "/cache").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const Status refused = cache.Store("key", "index", {"data"});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(), HasSubstr("another process makes a file"));
  other.Reset();
  EXPECT_TRUE(cache.Store("key", "index", {"data"}).ok());
  std::vector<std::thread> makers;
  for (int i = 0; i < 4; ++i) {
    makers.emplace_back([this] {
      for (int j = 0; j < 20; ++j) {
        const PreparedCache own = Open();
        static_cast<void>(own.Store("key", "index", {"data"}));
        const auto found = own.Find("key");
        EXPECT_TRUE(found && found->data == "data");
      }
    });
  }
  for (std::thread& maker : makers) maker.join();
}

TEST_F(PreparedCacheFiles, AChangedPackageHasAnotherKey) {
  const auto settled = [](const std::string& path) {
    for (int i = 0; i < 50 && !PreparedKeyOf(path); ++i) usleep(20'000);
    return PreparedKeyOf(path);
  };
  const std::string path = NewFile("m.tar", "first");
  EXPECT_FALSE(PreparedKeyOf(path)) << "a file that changed just now may change again at the same time";
  const auto key = settled(path);
  ASSERT_TRUE(key);
  EXPECT_EQ(PreparedKeyOf(path), key);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  const timespec times[2] = {info.st_atim, info.st_mtim};
  NewFile("m.tar", "other");  // in place, of the same size and time
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const auto changed = settled(path);
  ASSERT_TRUE(changed);
  EXPECT_NE(changed, key);
  const std::string replacement = NewFile("new", "third");
  ASSERT_EQ(utimensat(AT_FDCWD, replacement.c_str(), times, 0), 0);
  fs::rename(replacement, path);
  const auto replaced = settled(path);
  EXPECT_NE(replaced, key);
  EXPECT_NE(replaced, changed);
  EXPECT_FALSE(PreparedKeyOf(folder_));
  EXPECT_FALSE(PreparedKeyOf(folder_ + "/none"));
}

}  // namespace
}  // namespace autotune
