// The pieces of packages that a server keeps for later sessions.
#include "rpc/content_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rpc/content_hash.h"

namespace autotune::rpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct ContentStoreTest : testing::Test {
  ContentStoreTest() { std::filesystem::remove_all(folder); }
  ~ContentStoreTest() override { std::filesystem::remove_all(folder); }
  // As a server that starts.
  ContentStore Open(int64_t most_bytes = 1000) {
    return ContentStore({.folder = folder, .most_bytes = most_bytes, .on_trouble = [this](const auto& line) {
                           lines.push_back(line);
                         }});
  }
  static void Keep(ContentStore& store, const std::string& bytes, const std::string& owner = "alice") {
    store.Keep(owner, ContentHash(bytes), bytes);
  }
  static bool Has(ContentStore& store, const std::string& bytes, const std::string& owner = "alice") {
    const Blob found = store.Find(owner, ContentHash(bytes));
    EXPECT_TRUE(!found || *found == bytes);
    return found != nullptr;
  }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
    return files;
  }
  const std::string folder = testing::TempDir() + "contents-" + std::to_string(getpid());
  std::vector<std::string> lines;
};

TEST_F(ContentStoreTest, KeepsBytesForTheirOwnerAlsoForTheNextProcess) {
  {
    ContentStore store = Open();
    EXPECT_FALSE(Has(store, "kernels"));
    Keep(store, "kernels");
    EXPECT_TRUE(Has(store, "kernels"));
  }
  ContentStore store = Open();
  EXPECT_TRUE(Has(store, "kernels"));
  EXPECT_FALSE(Has(store, "kernels", "bob")) << "nobody learns what another one has sent";
  EXPECT_EQ(store.bytes(), 7);
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(ContentStoreTest, FilesDoNotShowWhatTheyHold) {
  ContentStore store = Open();
  const std::string zeros(300, '\0');
  Keep(store, zeros);
  std::ifstream file(Files().at(0), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(bytes.size(), zeros.size());
  EXPECT_LT(std::ranges::count(bytes, '\0'), 20);
  EXPECT_EQ(Files().at(0).string().find(ContentHash(zeros)), std::string::npos) << "the hash is the key";
  EXPECT_TRUE(Has(store, zeros));
}

TEST_F(ContentStoreTest, DropsTheLeastRecentlyUsed) {
  const auto of = [](char c) { return std::string(400, c); };
  {
    ContentStore store = Open();
    Keep(store, of('a'));
    Keep(store, of('b'));
    EXPECT_TRUE(Has(store, of('a')));
    Keep(store, of('c'));
    EXPECT_FALSE(Has(store, of('b')));
    EXPECT_TRUE(Has(store, of('a')) && Has(store, of('c')));
    Keep(store, std::string(1001, 'd'));  // more than it may keep
    EXPECT_TRUE(Has(store, of('c')) && Has(store, of('a')));
    EXPECT_EQ(store.bytes(), 800);
  }
  EXPECT_EQ(Files().size(), 2u);
  ContentStore smaller = Open(500);
  EXPECT_FALSE(Has(smaller, of('c')));
  EXPECT_TRUE(Has(smaller, of('a'))) << "it was used later";
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(ContentStoreTest, DamagedFilesAreNotThereAndAreReplaced) {
  for (const std::string damage : {"", "kern", "kernelz", "kernels and more"}) {
    ContentStore store = Open();
    Keep(store, "kernels");
    ASSERT_EQ(Files().size(), 1u);
    std::ofstream(Files().at(0)) << damage;
    EXPECT_FALSE(Has(store, "kernels"));
    EXPECT_THAT(Files(), IsEmpty());
    EXPECT_EQ(store.bytes(), 0);
    Keep(store, "kernels");
    EXPECT_TRUE(Has(store, "kernels"));
  }
  {
    ContentStore store = Open();
    std::filesystem::remove(Files().at(0));
    EXPECT_FALSE(Has(store, "kernels"));
  }
  std::ofstream(folder + "/half.tmp1") << "of a writer that was killed";
  Open();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ContentStoreTest, AFolderThatCannotBeUsedKeepsNothing) {
  std::ofstream(folder) << "a file";
  ContentStore store = Open();
  Keep(store, "kernels");
  EXPECT_FALSE(Has(store, "kernels"));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("packages are not kept: ")));
  std::filesystem::remove(folder);
  ContentStore gone = Open();
  Keep(gone, "kernels");
  std::filesystem::remove_all(folder);
  for (const char* bytes : {"a", "b"}) Keep(gone, bytes);
  EXPECT_EQ(lines.size(), 2u) << "one line for all of them";
  EXPECT_FALSE(Has(gone, "a"));
  // Without a folder or room for anything, there is nothing to tell.
  ContentStore none({.folder = "", .most_bytes = 1000}), empty({.folder = folder, .most_bytes = 0});
  for (ContentStore* each : {&none, &empty}) {
    Keep(*each, "kernels");
    EXPECT_FALSE(Has(*each, "kernels"));
  }
}

}  // namespace
}  // namespace autotune::rpc
