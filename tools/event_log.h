// The log of rpc_tracker and rpc_server on standard error: a line for each event, with its time.
#pragma once
#include <cstdint>
#include <string>

namespace autotune::tools {

// Writes lines without ever waiting: a reader that does not read, or a stopped terminal, must not stop the farm. Lines
// that would have to wait are dropped; the next line says how many. Not thread-safe.
class EventLog {
 public:
  explicit EventLog(std::string program, int fd = 2) : program_(std::move(program)), fd_(fd) {}
  void Write(const std::string& line);  // "14:05:12 rpc_server: " and the line

 private:
  std::string program_;
  int fd_;
  int64_t dropped_ = 0;
};

// Returns what --version prints for a program of the farm.
std::string FarmVersion(const std::string& program);

}  // namespace autotune::tools
