#include "tuner/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include "support/clock.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr int kSliceMs = 100;          // [chosen] longest time until a stop is noticed
constexpr int64_t kEndMs = 500;        // [chosen] time that a command has to end after the end of its input
constexpr int64_t kLastWordsMs = 500;  // [chosen] longest wait for the exit status and the last lines of an error

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Result<std::unique_ptr<LineProcess>> LineProcess::Start(Options options) {
  std::unique_ptr<LineProcess> process(new LineProcess(std::move(options)));
  // The input is a socket: writing to a pipe whose reader has ended raises SIGPIPE, which would end this process.
  auto [input, its_input] = TRY(MakeSocketPair());
  auto [output, its_output] = TRY(MakePipe());
  auto [errors, its_errors] = TRY(MakePipe());
  SpawnOptions spawn;
  spawn.argv = process->options_.guard;
  if (spawn.argv.empty()) spawn.argv = {"/bin/sh", "-c"};
  spawn.argv.push_back(process->options_.command);
  spawn.fds = {{0, its_input.get()}, {1, its_output.get()}, {2, its_errors.get()}};
  process->process_.emplace(TRY(Subprocess::Spawn(spawn)));
  process->input_ = std::move(input);
  process->output_ = std::move(output);
  process->errors_ = std::move(errors);
  SetNonBlocking(process->output_.get());
  SetNonBlocking(process->errors_.get());
  process->error_reader_ =
      std::jthread([self = process.get()](const std::stop_token& stop) { self->ReadErrors(stop); });
  return process;
}

LineProcess::~LineProcess() {
  input_.Reset();
  if (process_) process_->Wait(kEndMs);
  process_.reset();  // kills the group
}

void LineProcess::Send(std::string_view line) {
  to_write_.erase(0, std::exchange(written_, 0));
  to_write_.append(line);
  to_write_ += '\n';
}

Status LineProcess::Write() {
  while (written_ < to_write_.size()) {
    const ssize_t n =
        send(input_.get(), to_write_.data() + written_, to_write_.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return Closed("input");
    written_ += static_cast<size_t>(n);
  }
  return {};
}

Status LineProcess::Read() {
  char bytes[64 << 10];
  while (true) {
    const ssize_t n = read(output_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n <= 0) return Closed("output");
    read_.append(bytes, static_cast<size_t>(n));
    return {};
  }
}

Error LineProcess::Closed(const std::string& stream) {
  const std::optional<ExitStatus> status = process_->Wait(kLastWordsMs);
  std::unique_lock lock(mutex_);
  errors_changed_.wait_for(lock, std::chrono::milliseconds(kLastWordsMs), [this] { return errors_ended_; });
  return status ? Err("ended: it ", status->Text()) : Err("closed its standard ", stream);
}

Result<std::optional<std::string>> LineProcess::Receive(double deadline) {
  bool looked = false;  // at the deadline
  while (true) {
    const size_t end = read_.find('\n', searched_);
    if (end > options_.most_bytes && read_.size() > options_.most_bytes)
      return Err("wrote a line of more than ", options_.most_bytes, " bytes");
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      searched_ = 0;
      if (!IsUtf8(line)) return Err("wrote a line that is no UTF-8: ", OneLine(CutText(line, 60)));
      return std::optional(std::move(line));
    }
    searched_ = read_.size();
    if (options_.stop && *options_.stop) return Error("a stop ended the wait for an answer", ErrorKind::kStopped);
    const double left = std::max(0.0, deadline - SteadySeconds());
    if (left == 0 && std::exchange(looked, true)) return std::optional<std::string>();
    TRY(Write());
    pollfd ready[2] = {{output_.get(), POLLIN, 0}, {written_ < to_write_.size() ? input_.get() : -1, POLLOUT, 0}};
    poll(ready, 2, static_cast<int>(std::min<double>(std::ceil(1e3 * left), kSliceMs)));
    if (ready[0].revents) TRY(Read());
  }
}

// Passes lines on until the stream or the process ends. A grandchild may keep the stream open, so the end of the stream
// alone does not suffice.
void LineProcess::ReadErrors(const std::stop_token& stop) {
  std::string text;
  int lines = 0;
  const auto pass_on = [&](std::string_view line) {
    if (!options_.on_error_line || line.empty() || lines > kMostErrorLines) return;
    if (lines++ == kMostErrorLines) return options_.on_error_line("(further lines are not shown)");
    options_.on_error_line(OneLine(CutText(line, kErrorLineBytes)));
  };
  for (bool open = true; open;) {
    pollfd ready{errors_.get(), POLLIN, 0};
    if (poll(&ready, 1, kSliceMs) == 0) {
      if (stop.stop_requested()) break;
      continue;
    }
    char bytes[4096];
    const ssize_t n = read(errors_.get(), bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    open = n > 0;
    if (open) text.append(bytes, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      pass_on(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
    if (text.size() > kErrorLineBytes) {
      pass_on(text);
      text.clear();
    }
  }
  pass_on(text);
  const std::lock_guard hold(mutex_);
  errors_ended_ = true;
  errors_changed_.notify_all();
}

int RunGuarded(const char* command) {
  EndGroupWithParent();
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command, nullptr);
    _exit(127);
  }
  // Only the command has the streams, so that their ends are its own.
  for (int fd = 0; fd < 3; ++fd) close(fd);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0) return 127;
  // Processes that the command has left behind end with it.
  signal(SIGTERM, SIG_IGN);
  kill(0, SIGTERM);
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}

}  // namespace autotune
