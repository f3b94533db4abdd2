// How rpc_server shows its sandbox, and what it refuses.
#include "rpc/sandbox_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "rpc/runner_user.h"
#include "rpc/sandbox.h"

namespace autotune::rpc {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kServer = std::string(AUTOTUNE_BINARY_DIR) + "/tools/rpc_server";

struct Shown {
  int code;
  std::string text;
};
Shown ServerRun(const std::string& arguments) {
  FILE* pipe = popen((kServer + " " + arguments + " 2>&1").c_str(), "r");
  Shown shown{-1, ""};
  char bytes[4096];
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, pipe)) > 0;) shown.text.append(bytes, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) shown.code = WEXITSTATUS(status);
  return shown;
}

TEST(Sandbox, TheDoctorShowsEachLayer) {
  const Shown all = ServerRun("doctor");
  EXPECT_EQ(all.code, 0) << all.text;
  EXPECT_THAT(all.text, AllOf(HasSubstr("own user"), HasSubstr("files"), HasSubstr("system calls")));
  const Shown off = ServerRun("doctor --sandbox=off");
  EXPECT_EQ(off.code, 0) << off.text;
  EXPECT_THAT(off.text, AllOf(HasSubstr("off  --sandbox=off"), HasSubstr("to switch it on")));
  EXPECT_EQ(ServerRun("doctor --sandbox=some").code, 2);
}

TEST(Sandbox, StrictNamesWhatIsMissing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string other = " --runner-prefix 'setpriv --reuid=65534 --regid=65534 --clear-groups'";
  for (const std::string& arguments :
       {"doctor --sandbox=strict" + other, "--tracker /none --key k --sandbox=strict" + other}) {
    const Shown shown = ServerRun(arguments);
    EXPECT_EQ(shown.code, 1) << arguments;
    EXPECT_THAT(shown.text,
                HasSubstr("error: --sandbox=strict: the runner lacks own user: the server does not run as root"));
  }
  EXPECT_EQ(ServerRun("doctor" + other).code, 0);
}

TEST(Sandbox, MissingLayersAreNamed) {
  EXPECT_TRUE(CheckStrict({{"files", true, "Landlock 7", ""}}).ok());
  const Status missing =
      CheckStrict({{"files", false, "no Landlock", "use a later kernel"}, {"own user", true, "", ""}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().Text(), "--sandbox=strict: the runner lacks files: no Landlock (use a later kernel)");
}

TEST(RunnerUser, EachServerHasItsOwn) {
  const std::string folder = testing::TempDir() + "runner-user-" + std::to_string(getpid());
  if (geteuid() != 0) {
    EXPECT_FALSE(RunnerUser::Take(folder).ok());
    GTEST_SKIP() << "needs root";
  }
  auto first = RunnerUser::Take(folder);
  ASSERT_TRUE(first.ok()) << first.error().Text();
  {
    const auto second = RunnerUser::Take(folder);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(first->number(), kFirstRunnerUser);
    EXPECT_EQ(second->number(), kFirstRunnerUser + 1);
  }
  EXPECT_EQ(RunnerUser::Take(folder)->number(), kFirstRunnerUser + 1) << "the number of an ended server is free again";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace autotune::rpc
