// Session: a loaded network that programs of others run. It checks tensors, gives kernels the caller's own memory where
// it can, and copies elsewhere. Calls of one session take turns; sessions are independent. It neither loads nor
// compiles.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "package/load.h"
#include "runtime/tensor.h"
#include "support/result.h"

namespace autotune {

class Session {
 public:
  struct Port {
    std::string name;
    Tensor own;         // the executor's memory for it, used whenever the caller's is not
    int64_t alignment;  // that kernels need of the caller's memory, in bytes
  };

  explicit Session(LoadedModel model);

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // Returns the index of an input. An error lists the inputs.
  Result<int64_t> InputIndex(std::string_view name) const { return executor_->InputIndex(name); }

  // Copies `tensor` into an input, for all later runs.
  Status SetInput(size_t i, const Tensor& tensor);
  // Runs on the inputs that were set; the results are in outputs()[i].own.
  Status Run();
  // Runs on `inputs` and writes the results into `outputs`, a tensor for each port; null: as Run. Kernels use a
  // tensor's memory itself if it lies on the port's device, is aligned as the port says and overlaps no output. Keeps
  // no reference to tensors of the host.
  Status RunWith(std::span<const Tensor* const> inputs, std::span<const Tensor* const> outputs);

 private:
  Status UseInput(size_t i, const Tensor* tensor, bool direct);
  Status UseOutput(size_t i, const Tensor* tensor);

  std::mutex mutex_;  // held during runs
  std::unique_ptr<GraphExecutor> executor_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace autotune
