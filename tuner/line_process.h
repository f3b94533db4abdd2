// LineProcess: a shell command with which this process exchanges lines of text, over its standard input and output. The
// command leads a process group of its own, so a terminal's Ctrl-C does not reach it. Its standard error is read by a
// thread, line by line. Every answer is untrusted: a line that is too long or no UTF-8 is an error, not a crash. Not
// thread-safe, and the thread that starts the command must live as long as it (support/subprocess.h).
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/result.h"
#include "support/subprocess.h"
#include "support/unique_fd.h"

namespace autotune {

class LineProcess {
 public:
  struct Options {
    std::string command;  // for `/bin/sh -c`
    // A program and its arguments that run `command`, their last argument, by RunGuarded. So the command ends even if
    // this process is killed. Empty: the shell runs it, and only the end of its input tells it that we have ended.
    std::vector<std::string> guard;
    size_t most_bytes = 16 << 20;  // longest line that the command may write
    // Called with each line of its standard error, by another thread. Printable, at most kErrorLineBytes long.
    std::function<void(const std::string& line)> on_error_line;
    const std::atomic<bool>* stop = nullptr;  // when it becomes true, Receive ends with an error of kind kStopped
  };
  static constexpr size_t kErrorLineBytes = 1000;
  static constexpr int kMostErrorLines = 1000;  // further lines are dropped; a last one says so

  static Result<std::unique_ptr<LineProcess>> Start(Options options);
  // Closes the command's input. If it has not ended half a second later, kills its process group.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;

  // Queues a line, without its end. Receive writes what the command has not taken yet, so Send never waits.
  void Send(std::string_view line);
  // Returns the next line, without its end; nothing at `deadline` (SteadySeconds), but reads once
  // in any case. Errors, after each of which the
  // object is of no use: the command has ended, or closed its input or output; a line is too long or no UTF-8; a stop.
  // Their texts continue a sentence that begins with the command.
  Result<std::optional<std::string>> Receive(double deadline);

 private:
  explicit LineProcess(Options options) : options_(std::move(options)) {}
  Status Write();
  Status Read();
  // The error of a command that has closed `stream`: how it has ended, if it has.
  Error Closed(const std::string& stream);
  void ReadErrors(const std::stop_token& stop);

  Options options_;
  std::optional<Subprocess> process_;
  UniqueFd input_, output_, errors_;  // the command's; our ends
  std::string to_write_;
  size_t written_ = 0;  // bytes of `to_write_`
  std::string read_;
  size_t searched_ = 0;  // bytes of `read_` that have no end of a line
  std::mutex mutex_;
  std::condition_variable errors_changed_;
  bool errors_ended_ = false;  // guarded by mutex_
  std::jthread error_reader_;
};

// The main function of a guard: runs the command by the shell, and ends like it. If its parent ends first, it kills
// their process group. Call EndWithParent before.
int RunGuarded(const char* command);

}  // namespace autotune
