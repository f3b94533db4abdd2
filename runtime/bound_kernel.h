// BoundKernel: a kernel of a module on one device, ready to run. ModuleNode::BindKernel makes it, executors call it. It
// keeps its code and its device alive. One call at a time per device.
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
  // Returns the indices of the parameters of `kind`.
  std::vector<int64_t> ParamsOfKind(ParamKind kind) const { return metadata_.ParamsOfKind(kind); }

  // Returns the bytes of scratch memory that the caller must provide by SetScratch before the first run. 0: the kernel
  // needs none, or the device provides it.
  virtual int64_t ScratchBytes() const { return 0; }
  virtual void SetScratch(std::shared_ptr<void>) {}

  // Runs the kernel, or gives the device the command to run it. `args` are addresses of the device: the parameters in
  // order, then the prepared buffers. Addresses of parameters listed as prepare_only are not used. Checks nothing.
  virtual Status Run(void* const* args) = 0;
  // Fills the prepared buffers. `args` are the constants in order, then the prepared buffers. May be called only if the
  // kernel has prepared buffers.
  virtual Status Prepare(void* const* args) = 0;

 protected:
  explicit BoundKernel(const KernelMetadata& metadata) : metadata_(metadata) {}

 private:
  const KernelMetadata& metadata_;  // owned by the artifact that the derived class keeps alive
};

}  // namespace autotune
