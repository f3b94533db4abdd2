// Finds out why nobody answers at some addresses, which ZeroMQ does not tell: connects to each without ZeroMQ. Works on
// a thread of its own, since looking up a name may take long. Thread-safe.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace autotune::rpc {

class Reach {
 public:
  // Begins to connect to these endpoints (NormalizeEndpoint), all at once.
  static std::unique_ptr<Reach> Begin(const std::vector<std::string>& endpoints);
  // Says what has come of it so far: "tcp://10.0.0.7:9190 (connection refused), tcp://[fd00::7]:9190 (no answer)".
  std::string Text() const;

 private:
  struct Shared;
  explicit Reach(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;  // with the thread, which may still wait for a name
};

}  // namespace autotune::rpc
