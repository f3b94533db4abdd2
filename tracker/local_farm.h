// LocalFarm: a farm of one for this host. A tracker in a thread and one device server as a child process talk over
// ipc:// in a private folder, with the same messages and code as a farm of many machines. The child is restarted when
// it dies, up to five times; after that, requests for the device are refused with the cause. Thread-safe. The farm ends
// when it is destroyed, or when this process ends in any way.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

struct LocalFarmOptions {
  std::vector<int> cores;                     // the device's; empty: all
  std::string server_path;                    // of rpc_server; empty: FindOwnExecutable
  std::vector<std::string> server_arguments;  // more of them
  double start_seconds = 10;                  // for the device to be ready
  int max_restarts = 5;
};

class LocalFarm {
 public:
  // Returns when the device is ready.
  static Result<std::unique_ptr<LocalFarm>> Start(const LocalFarmOptions& options = {});
  ~LocalFarm();
  LocalFarm(const LocalFarm&) = delete;

  std::string tracker() const;  // FarmOptions::tracker
  std::string key() const { return "local"; }
  int server_pid() const;
  // An error once the device server has been given up.
  Status Health() const;

  struct Impl;

 private:
  explicit LocalFarm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
