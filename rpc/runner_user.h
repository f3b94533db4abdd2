// The user of the operating system that the runners of a server have, so that they may touch nothing of the server and
// of other users. Only a server that runs as root can give them one.
#pragma once
#include <sys/types.h>

#include <string>

#include "support/result.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

inline constexpr uid_t kFirstRunnerUser = 70000;  // beyond the numbers that systems give to people and services

class RunnerUser {
 public:
  // Takes the first number from kFirstRunnerUser that neither a user of this host nor another server has. The number
  // belongs to this process as long as the object exists: it holds the lock of a file in `folder`, which is made if
  // necessary. Returns an error if this process does not run as root.
  static Result<RunnerUser> Take(const std::string& folder = "/run/autotune");
  uid_t number() const { return number_; }

 private:
  RunnerUser(uid_t number, UniqueFd lock) : number_(number), lock_(std::move(lock)) {}
  uid_t number_;
  UniqueFd lock_;
};

// Makes this process one of the user and of the group with this number, without other groups and without capabilities.
// It still ends with its parent. `threads` limits the threads of the user, if its number is one that Take gives.
Status BecomeUser(uid_t number, int threads);

}  // namespace autotune::rpc
