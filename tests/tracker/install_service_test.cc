// `rpc_server install-service`: the files that it writes, and what systemd says of them if this machine has it.
#include <sys/stat.h>

#include <cstdio>

#include "rpc/join_file.h"
#include "support/file.h"
#include "support/sanitized.h"
#include "support/shell.h"
#include "tests/tracker/farm.h"
#include "tests/tracker/invite.h"

namespace autotune {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Printed {
  int code = -1;
  std::string text;  // of both outputs
};
Printed Shell(const std::string& command) {
  Printed printed;
  FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  char bytes[4096];
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, pipe)) > 0;) printed.text.append(bytes, n);
  const int status = pclose(pipe);
  printed.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return printed;
}

class InstallService : public FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    for (const auto& [name, role] : {std::pair{"board", rpc::Role::kServer}, {"alice", rpc::Role::kClient}}) {
      const auto file = Invite(folder_ + "/state", name, role, {"tcp://127.0.0.1:9190"});
      ASSERT_TRUE(file.ok()) << file.error().Text();
      ASSERT_TRUE(ReplaceFileDurably(folder_ + "/" + name + ".join", file->Text()).ok());
    }
  }
  Printed Install(const std::string& options) { return Shell(kTools + "/rpc_server install-service " + options); }
  std::string JoinOf(const std::string& name) const { return " --join " + folder_ + "/" + name + ".join "; }
};

int ModeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : -1;
}

TEST_F(InstallService, WritesAUnitAndAJoinFileThatOnlyRootReads) {
  const std::string root = folder_ + "/root", unit = root + "/etc/systemd/system/autotune-rpi:4.service";
  const Printed installed = Install("--root " + root + JoinOf("board") + "--key rpi:4 --cores 0 --shared-host " +
                                    "--runner-prefix 'emulate 50% of $it' --idle-exit 2h");
  ASSERT_EQ(installed.code, 0) << installed.text;
  EXPECT_THAT(installed.text, HasSubstr("systemctl daemon-reload && systemctl enable --now autotune-rpi:4.service"));
  EXPECT_EQ(ModeOf(unit), 0644);
  const std::string text = ReadFile(unit).value();
  EXPECT_THAT(text, HasSubstr("rpc_server --join /etc/autotune/rpi:4.join"));
  EXPECT_THAT(text, HasSubstr(" --key rpi:4"));
  EXPECT_THAT(text, HasSubstr(" --cores 0"));
  EXPECT_THAT(text, HasSubstr(" --shared-host"));
  EXPECT_THAT(text, HasSubstr(" --idle-exit 2h"));
  EXPECT_THAT(text, HasSubstr(R"( --runner-prefix "emulate 50%% of $$it")"));
  EXPECT_THAT(text, HasSubstr("PrivateDevices=yes"));
  const std::string join = root + "/etc/autotune/rpi:4.join";
  EXPECT_EQ(ModeOf(join), 0600);
  EXPECT_EQ(rpc::ReadJoinFile(join).value().name, "board");
  // A driver's device files must not be hidden.
  const Printed gpu = Install("--print --key gpu --device cuda");
  EXPECT_EQ(gpu.code, 0);
  EXPECT_THAT(gpu.text, Not(HasSubstr("PrivateDevices")));
}

TEST_F(InstallService, SystemdFindsNothingWrongWithTheUnit) {
  if (Shell("systemd-analyze --version").code != 0) GTEST_SKIP() << "this machine has no systemd-analyze";
  const Printed printed = Install("--print --key rpi4");
  ASSERT_EQ(printed.code, 0) << printed.text;
  const std::string unit = folder_ + "/autotune-rpi4.service";
  const auto verified = [&](const std::string& text) {
    EXPECT_TRUE(ReplaceFileDurably(unit, text).ok());
    return Shell("systemd-analyze verify " + ShellWord(unit));
  };
  const Printed good = verified(printed.text);
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_EQ(good.text, "");
  const std::string line = "ProtectSystem=";
  std::string misspelt = printed.text;
  misspelt.replace(misspelt.find(line), line.size(), "ProtectsSystem=");
  EXPECT_THAT(verified(misspelt).text, HasSubstr("ProtectsSystem"));  // the twin

  if (Shell("systemd-analyze --help").text.find("--threshold") == std::string::npos)
    GTEST_SKIP() << "this systemd-analyze judges no files";
  // In tenths: 0 is confined, 100 is not. A program without any of these lines has 96.
  const auto is_confined = [&](const std::string& text) {
    EXPECT_TRUE(ReplaceFileDurably(unit, text).ok());
    return Shell("systemd-analyze security --no-pager --offline=true --threshold=40 " + ShellWord(unit));
  };
  const Printed confined = is_confined(printed.text);
  EXPECT_EQ(confined.code, 0) << confined.text;
  std::string bare = printed.text;
  bare.erase(bare.find("CapabilityBoundingSet="), bare.find("ExecStart=") - bare.find("CapabilityBoundingSet="));
  EXPECT_NE(is_confined(bare).code, 0);
}

TEST_F(InstallService, RefusesWhatAServiceCannotHave) {
  const std::string root = "--root " + folder_ + "/root --key rpi4";
  const auto refusal = [&](const std::string& options, int code) {
    const Printed refused = Install(root + " " + options);
    EXPECT_EQ(refused.code, code) << refused.text;
    return refused.text;
  };
  EXPECT_THAT(refusal("", 1), HasSubstr("error: --join is missing"));
  EXPECT_THAT(refusal(JoinOf("board") + "--state /x", 1), HasSubstr("error: install-service excludes --state"));
  EXPECT_THAT(refusal(JoinOf("alice"), 1), HasSubstr("alice.join is that of the client alice"));
  EXPECT_THAT(refusal(JoinOf("board") + "--idle-exit 5", 2), HasSubstr("error: --idle-exit 5 is no duration"));
  EXPECT_THAT(Install(JoinOf("board") + "--key rpi4 --root /proc/nowhere").text, HasSubstr("hint: run it as root"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/root"));
}

}  // namespace
}  // namespace autotune
