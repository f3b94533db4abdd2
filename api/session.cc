#include "api/session.h"

#include <algorithm>

#include "api/handles.h"
#include "runtime/device.h"

namespace autotune {
namespace {

// Returns an error if the tensor does not fit the port. `what` is "input" or "output", for the error.
Status CheckPort(const char* what, const Session::Port& port, const Tensor& tensor) {
  if (tensor.defined() && tensor.dtype() == port.own.dtype() && tensor.shape() == port.own.shape()) return {};
  return api::Invalid(what, " '", port.name, "' is ", port.own.TypeText(), ", got ",
                      tensor.defined() ? tensor.TypeText() : "no tensor");
}

// Returns true if kernels can use the memory of `tensor` in place of the port's own.
bool KernelsCanUse(const Tensor& tensor, const Session::Port& port) {
  return tensor.device() == port.own.device() && tensor.num_bytes() > 0 &&
         reinterpret_cast<uintptr_t>(tensor.data()) % static_cast<uint64_t>(port.alignment) == 0;
}

bool Overlap(const Tensor& a, const Tensor& b) {
  if (a.device() != b.device()) return false;
  const auto *first = static_cast<const char*>(a.data()), *second = static_cast<const char*>(b.data());
  return first < second + b.num_bytes() && second < first + a.num_bytes();
}

bool OverlapsAny(const Tensor& tensor, std::span<const Tensor* const> others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Tensor* other) { return other && Overlap(tensor, *other); });
}

// Returns a tensor over the same memory that does not keep its owner alive; the tensor itself if another device has it.
Result<Tensor> Unowned(const Tensor& tensor) {
  if (tensor.device()) return tensor;
  return Tensor::View(tensor.data(), tensor.shape(), tensor.dtype(), nullptr);
}

}  // namespace

Session::Session(LoadedModel model) : executor_(std::move(model.executor)) {
  for (int64_t i = 0; i < executor_->num_inputs(); ++i)
    inputs_.push_back({executor_->input_name(i), executor_->Input(i), executor_->InputAlignment(i)});
  for (int64_t i = 0; i < executor_->num_outputs(); ++i) {
    const std::string& named = model.info.outputs[static_cast<size_t>(i)].name;
    outputs_.push_back(
        {named.empty() ? executor_->output_name(i) : named, executor_->Output(i), executor_->OutputAlignment(i)});
  }
}

// Makes the next run read input i from `tensor` if it is `direct`, else from the executor's own memory, into which it
// copies a tensor. The memory of an earlier call, which may be gone, is not touched.
Status Session::UseInput(size_t i, const Tensor* tensor, bool direct) {
  const auto index = static_cast<int64_t>(i);
  const Tensor& own = inputs_[i].own;
  const Tensor& memory = direct ? *tensor : own;
  if (executor_->Input(index).data() != memory.data()) TRY(executor_->BindInput(index, TRY(Unowned(memory))));
  return tensor && !direct ? CopyTensor(*tensor, own) : Status();
}

// Makes the next run write output i into `tensor`, or into the executor's own memory if it is null.
Status Session::UseOutput(size_t i, const Tensor* tensor) {
  const auto index = static_cast<int64_t>(i);
  if (!executor_->CanBindOutput(index)) return {};
  const Tensor& memory = tensor ? *tensor : outputs_[i].own;
  if (executor_->Output(index).data() == memory.data()) return {};
  return executor_->BindOutput(index, TRY(Unowned(memory)));
}

Status Session::SetInput(size_t i, const Tensor& tensor) {
  TRY(CheckPort("input", inputs_[i], tensor));
  std::lock_guard lock(mutex_);
  return CopyTensor(tensor, inputs_[i].own);
}

Status Session::Run() {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < inputs_.size(); ++i) TRY(UseInput(i, nullptr, false));
  for (size_t i = 0; i < outputs_.size(); ++i) TRY(UseOutput(i, nullptr));
  return executor_->Run();
}

Status Session::RunWith(std::span<const Tensor* const> inputs, std::span<const Tensor* const> outputs) {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    return api::Invalid("the network has ", inputs_.size(), " inputs and ", outputs_.size(), " outputs, got ",
                        inputs.size(), " and ", outputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) TRY(CheckPort("input", inputs_[i], *inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    TRY(CheckPort("output", outputs_[i], *outputs[i]));
    if (outputs[i]->read_only()) return api::Invalid("output '", outputs_[i].name, "': the tensor is read-only");
  }
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool direct = inputs[i] && KernelsCanUse(*inputs[i], inputs_[i]) && !OverlapsAny(*inputs[i], outputs);
    TRY(UseInput(i, inputs[i], direct));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool direct =
        outputs[i] && KernelsCanUse(*outputs[i], outputs_[i]) && !OverlapsAny(*outputs[i], outputs.first(i));
    TRY(UseOutput(i, direct ? outputs[i] : nullptr));
  }
  TRY(executor_->Run());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const Tensor result = executor_->Output(static_cast<int64_t>(i));
    if (result.data() != outputs[i]->data()) TRY(CopyTensor(result, *outputs[i]));
  }
  return {};
}

}  // namespace autotune
