#include "rpc/sandbox_probe.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "support/clock.h"
#include "support/json.h"
#include "support/subprocess.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kPatienceMs = 30000;  // a driver of eight GPUs takes up to 20 s to start

// Reads until the end of the stream, or until the time is over.
std::string ReadWithin(int fd, int64_t milliseconds) {
  std::string text;
  const int64_t deadline = BootMillis() + milliseconds;
  for (int64_t left; (left = deadline - BootMillis()) > 0;) {
    pollfd p{fd, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(left)) < 0 && errno != EINTR) break;
    if (!p.revents) continue;
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(bytes, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

Result<std::vector<SandboxLayer>> ProbeSandbox(std::vector<std::string> runner_command, bool wrapped) {
  auto [read_end, write_end] = TRY(MakePipe());
  runner_command.emplace_back("--show-sandbox");
  Subprocess runner =
      TRY(Subprocess::Spawn({.argv = std::move(runner_command), .fds = {{1, write_end.get()}}, .wrapped = wrapped}));
  write_end.Reset();
  const std::string text = ReadWithin(read_end.get(), kPatienceMs);
  if (const auto status = runner.Wait(kPatienceMs); !status || !status->ok())
    return Err("the runner ", status ? status->Text() : "did not start in time");
  return FromJson<std::vector<SandboxLayer>>(TRY(Json::Parse(text)));
}

}  // namespace autotune::rpc
