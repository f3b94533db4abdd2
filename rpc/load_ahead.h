// LoadAhead: loads the artifacts of the next candidates of a GPU while the present one is prepared and checked. Without
// machine code in an artifact, the driver translates its PTX meanwhile, on other cores. It tells nobody about failures:
// an artifact that does not load here is loaded again in its own turn, and fails there. Not thread-safe.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "rpc/measure.h"
#include "runtime/artifact.h"
#include "runtime/module.h"
#include "support/hash.h"

namespace autotune::rpc {

// An artifact and the module of its kernels.
struct LoadedArtifact {
  std::shared_ptr<const Artifact> artifact;
  Module module;  // null: not made yet
};

class LoadAhead {
 public:
  // `device`: the device that kernels run on; null: the CPU, for which nothing is loaded.
  explicit LoadAhead(DevicePtr device) : device_(std::move(device)) {}
  ~LoadAhead() { Wait(); }
  LoadAhead(const LoadAhead&) = delete;

  // Begins to load the artifacts, each in a thread of its own, and drops those of the call before.
  void Begin(const std::vector<Blob>& artifacts);
  // Waits until everything is loaded. No thread of this object runs or uses the device then.
  void Wait();
  bool Works() const { return !threads_.empty(); }  // from Begin to Wait
  // Waits, and returns the artifact of these bytes; without an artifact if it was not loaded. It is returned once.
  LoadedArtifact Take(std::string_view bytes);

 private:
  struct Entry {
    Hash128 hash;           // of the bytes, whose memory serves other artifacts later
    LoadedArtifact loaded;  // of the entry's thread until Wait
  };

  const DevicePtr device_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::thread> threads_;
};

}  // namespace autotune::rpc
