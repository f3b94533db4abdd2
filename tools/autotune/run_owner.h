// RunOwner: one process at a time continues a tuning run. Two would measure the same candidates, and count each other's
// trials as their own. It is a flock on a file beside the database, so it ends with the process that holds it. Movable,
// not thread-safe.
#pragma once
#include <string>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune::tools {

class RunOwner {
 public:
  // `database`: a path, or kMemoryStore, which no other process shares. `run`: a key (RunKey). Does not wait: if
  // another process owns the run, the error names the process.
  static Result<RunOwner> Take(const std::string& database, const std::string& run);
  ~RunOwner();
  RunOwner(RunOwner&&) = default;
  RunOwner& operator=(RunOwner&&) = delete;

 private:
  RunOwner(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

}  // namespace autotune::tools
