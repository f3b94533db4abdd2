// A farm of one device: a tracker, and a server that offers this machine under the key `pi` and logs to
// `server.err`.
#pragma once
#include <fcntl.h>
#include <optional>

#include "tests/tools/cli.h"

namespace autotune::test {

class FarmTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    socket_ = File("tracker");
    StartTracker();
    StartServer();
    ASSERT_TRUE(Soon([&] { return Run({"devices", "--tracker", socket_}).out.find("free") != std::string::npos; }, 30));
  }

  void StartTracker() {
    UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    auto tracker = Subprocess::Spawn(
        {.argv = {kTools + "/rpc_tracker", "--listen", socket_, "--state", File("state")}, .fds = {{1, null.get()}}});
    ASSERT_TRUE(tracker.ok());
    tracker_ = std::move(*tracker);
  }
  void StartServer(const std::vector<std::string>& options = {}) {
    UniqueFd log(open(File("server.err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    std::vector<std::string> argv = {kTools + "/rpc_server", "--tracker", socket_, "--key", "pi"};
    argv.insert(argv.end(), options.begin(), options.end());
    auto server = Subprocess::Spawn({.argv = argv, .fds = {{2, log.get()}}});
    ASSERT_TRUE(server.ok());
    servers_.push_back(std::move(*server));
  }

  std::string socket_;  // address of the tracker
  std::optional<Subprocess> tracker_;
  std::vector<Subprocess> servers_;
};

}  // namespace autotune::test
