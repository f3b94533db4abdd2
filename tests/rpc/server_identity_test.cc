#include "rpc/server_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "support/file.h"

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

class ServerIdentityTest : public testing::Test {
 protected:
  ~ServerIdentityTest() override { std::filesystem::remove_all(folder_); }
  Id IdOf(const std::string& key) { return ServerIdentity::Take(folder_, key)->id(); }

  const std::string folder_ = testing::TempDir() + "identity_" + std::to_string(getpid());
};

TEST_F(ServerIdentityTest, StaysOverRestarts) {
  const Id first = IdOf("pi");
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(IdOf("pi"), first);
  EXPECT_NE(IdOf("other"), first);
  EXPECT_EQ(std::filesystem::status(folder_ + "/server-pi-0").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ServerIdentityTest, ServersOfOneKeyHaveIdsOfTheirOwn) {
  auto first = ServerIdentity::Take(folder_, "pi");
  std::optional<ServerIdentity> second = std::move(*ServerIdentity::Take(folder_, "pi"));
  const Id id = second->id();
  EXPECT_NE(id, first->id());
  second.reset();
  EXPECT_EQ(IdOf("pi"), id) << "the first one still runs";
}

TEST_F(ServerIdentityTest, AFileThatHoldsNoIdIsReplaced) {
  std::filesystem::create_directories(folder_);
  for (const char* text : {"", "0123", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}) {
    ASSERT_TRUE(WriteFile(folder_ + "/server-pi-0", text).ok());
    const Id id = IdOf("pi");
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(IdOf("pi"), id);
  }
}

TEST_F(ServerIdentityTest, WithoutAFolderEachStartHasAnId) {
  EXPECT_NE(ServerIdentity::Take("", "pi")->id(), ServerIdentity::Take("", "pi")->id());
  EXPECT_THAT(ServerIdentity::Take("/dev/null/folder", "pi").error().Text(),
              HasSubstr("cannot keep the server's id in"));
}

}  // namespace
}  // namespace autotune::rpc
