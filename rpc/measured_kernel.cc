#include "rpc/measured_kernel.h"

#include "runtime/bound_kernel.h"
#include "runtime/module_blob.h"

namespace autotune::rpc {
namespace {

class CpuKernel final : public MeasuredKernel {
 public:
  CpuKernel(const Kernel& kernel, KernelContext& context, CopyArena& arena)
      : kernel_(kernel), context_(context), arena_(arena) {}

  Status Prepare(std::span<const Tensor> inputs) {
    TRY(Allocate(kernel_.metadata));
    std::vector<Tensor> constants;
    for (size_t i = 0, output = 0; i < kernel_.metadata.params.size(); ++i) {
      const ParamKind kind = kernel_.metadata.params[i].kind;
      args_.push_back(kind == ParamKind::kOutput ? outputs_[output++].tensor() : inputs[i]);
      if (kind == ParamKind::kConstant) constants.push_back(inputs[i]);
    }
    prepared_ = TRY(PrepareConstants(kernel_, context_, constants));
    return {};
  }

  Status SetInputs(std::span<const Tensor> inputs) override {
    for (size_t i = 0; i < args_.size(); ++i) {
      if (kernel_.metadata.params[i].kind == ParamKind::kInput) args_[i] = inputs[i];
    }
    return {};
  }
  // Calls the entry point that checks the arguments, as the executor does in its first call.
  Status Call() override { return CallKernel(kernel_, context_, args_, prepared_); }
  Status Refill() override {
    for (const GuardedTensor& output : outputs_) output.Refill();
    return {};
  }
  Result<Timing> Time(const KernelTimeOptions& options) override {
    return TimeKernel(kernel_, context_, args_, prepared_, arena_, options);
  }

 private:
  const Kernel& kernel_;
  KernelContext& context_;
  CopyArena& arena_;
  std::vector<Tensor> args_, prepared_;
};

class DeviceKernel final : public MeasuredKernel {
 public:
  DeviceKernel(std::shared_ptr<const Artifact> artifact, DevicePtr device)
      : artifact_(std::move(artifact)), device_(std::move(device)) {}

  Status Prepare(const Kernel& kernel, std::span<const Tensor> inputs) {
    const KernelMetadata& metadata = kernel.metadata;
    Module module = TRY(LoadModule(artifact_, std::make_shared<KernelContext>(1)));
    kernel_ = TRY(module->BindKernel(metadata.name, device_));
    if (const int64_t bytes = kernel_->ScratchBytes(); bytes > 0) kernel_->SetScratch(TRY(device_->Allocate(bytes)));
    TRY(Allocate(metadata));
    std::vector<void*> constants;
    for (size_t i = 0; i < metadata.params.size(); ++i) {
      if (metadata.params[i].kind == ParamKind::kOutput) {
        const int64_t bytes = static_cast<int64_t>(outputs_[remote_.size()].memory().size());
        remote_.push_back(TRY(device_->Allocate(bytes)));
        args_.push_back(static_cast<char*>(remote_.back().get()) + GuardedTensor::kBandBytes);
        continue;
      }
      inputs_.push_back(TRY(ToDevice(inputs[i], device_)));
      args_.push_back(inputs_.back().data());
      if (metadata.params[i].kind == ParamKind::kConstant) constants.push_back(args_.back());
    }
    for (int64_t bytes : metadata.prepared) {
      prepared_.push_back(TRY(device_->Allocate(bytes)));
      args_.push_back(prepared_.back().get());
      constants.push_back(prepared_.back().get());
    }
    if (kernel_->prepares()) TRY(kernel_->Prepare(constants.data()));
    TRY(Refill());
    inputs_at_ = metadata.ParamsOfKind(ParamKind::kInput);
    return device_->Synchronize();
  }

  Status SetInputs(std::span<const Tensor> inputs) override {
    for (const int64_t i : inputs_at_) {
      const Tensor& input = inputs[static_cast<size_t>(i)];
      TRY(device_->CopyIn(args_[static_cast<size_t>(i)], input.data(), input.num_bytes()));
    }
    return {};
  }
  Status Call() override {
    TRY(kernel_->Run(args_.data()));
    return Fetch();
  }
  Status Refill() override {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i].Refill();
      const std::span<char> memory = outputs_[i].memory();
      TRY(device_->CopyIn(remote_[i].get(), memory.data(), static_cast<int64_t>(memory.size())));
    }
    return {};
  }
  Result<Timing> Time(const KernelTimeOptions& options) override {
    Timing timing = TRY(EvaluateTime(options.time, [&](int64_t, int64_t count) -> Status {
      for (int64_t i = 0; i < count; ++i) TRY(kernel_->Run(args_.data()));
      return device_->Synchronize();
    }));
    TRY(Fetch());
    return timing;
  }

 private:
  Status Fetch() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const std::span<char> memory = outputs_[i].memory();
      TRY(device_->CopyOut(memory.data(), remote_[i].get(), static_cast<int64_t>(memory.size())));
    }
    return {};
  }

  const std::shared_ptr<const Artifact> artifact_;
  const DevicePtr device_;
  std::shared_ptr<BoundKernel> kernel_;
  std::vector<Tensor> inputs_;
  std::vector<std::shared_ptr<void>> remote_, prepared_;  // outputs with their bands; prepared buffers
  std::vector<int64_t> inputs_at_;                        // positions of the inputs that are no constants
  std::vector<void*> args_;
};

}  // namespace

Status MeasuredKernel::Allocate(const KernelMetadata& metadata) {
  for (const TensorSpec& spec : metadata.params) {
    if (spec.kind == ParamKind::kOutput) outputs_.push_back(TRY(GuardedTensor::Empty(spec.shape, spec.dtype)));
  }
  return {};
}

Result<std::unique_ptr<MeasuredKernel>> OnCpu(const Kernel& kernel, std::span<const Tensor> inputs,
                                              KernelContext& context, CopyArena& arena) {
  auto made = std::make_unique<CpuKernel>(kernel, context, arena);
  TRY(made->Prepare(inputs));
  return std::unique_ptr<MeasuredKernel>(std::move(made));
}

Result<std::unique_ptr<MeasuredKernel>> OnDevice(std::shared_ptr<const Artifact> artifact, const Kernel& kernel,
                                                 std::span<const Tensor> inputs, const DevicePtr& device) {
  auto made = std::make_unique<DeviceKernel>(std::move(artifact), device);
  TRY(made->Prepare(kernel, inputs));
  return std::unique_ptr<MeasuredKernel>(std::move(made));
}

}  // namespace autotune::rpc
