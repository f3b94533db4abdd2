// LocalFarm: a measurement farm with this host as its only device. A tracker in a thread and a device server in a child
// process communicate over ipc:// in a private folder, with the same messages and code as a farm of many machines. If
// the child dies, it is restarted, up to five times in close succession; after that, requests for the device are
// refused with the cause. Thread-safe. The farm ends when it is destroyed, or when this process ends in any way.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

struct LocalFarmOptions {
  std::vector<int> cores;                     // cores of the device; empty: all
  std::string server_path;                    // path of rpc_server; empty: FindOwnExecutable
  std::vector<std::string> server_arguments;  // further arguments of rpc_server
  // Longest wait until the device is ready. A driver of eight GPUs takes up to 20 s to start.
  double start_seconds = 30;
  int max_restarts = 5;
  double stable_seconds = 60;  // the restarts are counted anew after a server that has run this long
};

class LocalFarm {
 public:
  // Starts the farm and returns when its device is ready.
  static Result<std::unique_ptr<LocalFarm>> Start(const LocalFarmOptions& options = {});
  ~LocalFarm();
  LocalFarm(const LocalFarm&) = delete;

  std::string tracker() const;  // the tracker's endpoint, for FarmOptions::tracker
  std::string key() const { return "local"; }
  int server_pid() const;
  // Returns an error once the device server is no longer restarted.
  Status Health() const;

  struct Impl;

 private:
  explicit LocalFarm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
