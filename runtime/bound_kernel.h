// BoundKernel: a kernel of a module on one device, ready to run. Executors call it; ModuleNode::BindKernel makes it. It
// keeps code and device alive. One call at a time per device.
#pragma once
#include <memory>

#include "runtime/artifact.h"
#include "support/result.h"

namespace autotune {

class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  const KernelMetadata& metadata() const { return metadata_; }
  bool prepares() const { return !metadata_.prepared.empty(); }
  // The parameters of `kind`, as indices.
  std::vector<int64_t> ParamsOfKind(ParamKind kind) const { return metadata_.ParamsOfKind(kind); }

  // The bytes of scratch memory that a run needs from its caller. 0: it needs none, or the device's own context
  // provides it. Before the first run, SetScratch must be called with at least as much.
  virtual int64_t ScratchBytes() const { return 0; }
  virtual void SetScratch(std::shared_ptr<void>) {}

  // Runs the kernel, or gives the command to run it to the device. `args` are addresses of the device: the parameters
  // in order, then the prepared buffers. Those of parameters listed as prepare_only are not read. Nothing is checked.
  virtual Status Run(void* const* args) = 0;
  // Fills the prepared buffers. `args`: the constants in order, then the prepared buffers. Only if it prepares.
  virtual Status Prepare(void* const* args) = 0;

 protected:
  explicit BoundKernel(const KernelMetadata& metadata) : metadata_(metadata) {}

 private:
  const KernelMetadata& metadata_;  // of code that the derived class holds
};

}  // namespace autotune
