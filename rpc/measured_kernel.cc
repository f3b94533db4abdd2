#include "rpc/measured_kernel.h"

#include <algorithm>

#include "runtime/bound_kernel.h"
#include "runtime/device_timing.h"
#include "runtime/module_blob.h"
#include "support/integer.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kDeviceAlignment = 256;  // bytes; that of the memory of CUDA, on which vectors of any size lie
constexpr int64_t kMostDeviceCopies =
    1024;  // each has a place in the recorded graphs, which takes microseconds [chosen]

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
  DeviceKernel(LoadedArtifact loaded, DevicePtr device) : loaded_(std::move(loaded)), device_(std::move(device)) {}

  Status Prepare(const Kernel& kernel, std::span<const Tensor> inputs) {
    const KernelMetadata& metadata = kernel.metadata;
    if (!loaded_.module) loaded_.module = TRY(LoadModule(loaded_.artifact, std::make_shared<KernelContext>(1)));
    kernel_ = TRY(loaded_.module->BindKernel(metadata.name, device_));
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
    const std::vector<std::vector<void*>> copies = TRY(CopiesOfWeights(options.cold_bytes));
    DeviceTiming timing = TRY(TimeOnDevice(
        *device_, options.time, [&](int64_t copy) { return kernel_->Run(copies[static_cast<size_t>(copy)].data()); },
        static_cast<int64_t>(copies.size())));
    TRY(Fetch());
    state_ = std::move(timing.state);
    return std::move(timing.timing);
  }

 private:
  // A constant or prepared buffer that runs read.
  struct Weight {
    size_t arg;
    int64_t bytes, offset;  // size, and offset within a copy
  };

  // Returns the arguments of calls: the kernel's own, then those with copies of the weights.
  Result<std::vector<std::vector<void*>>> CopiesOfWeights(int64_t cold_bytes) {
    std::vector<std::vector<void*>> args = {args_};
    const KernelMetadata& metadata = kernel_->metadata();
    std::vector<Weight> weights;
    int64_t copy_bytes = 0, activation_bytes = 0;
    auto add = [&](size_t arg, int64_t bytes) {
      weights.push_back({arg, bytes, copy_bytes});
      copy_bytes += AlignUp<int64_t>(bytes, kDeviceAlignment);
    };
    for (size_t i = 0; i < metadata.params.size(); ++i) {
      if (std::ranges::count(metadata.prepare_only, static_cast<int64_t>(i)) > 0) continue;
      const TensorSpec& spec = metadata.params[i];
      const int64_t bytes = TRY(ShapeBytes(spec.shape, TRY(DataTypeFromText(spec.dtype))));
      if (spec.kind == ParamKind::kConstant) {
        add(i, bytes);
      } else {
        activation_bytes += bytes;
      }
    }
    for (size_t i = 0; i < metadata.prepared.size(); ++i) add(metadata.params.size() + i, metadata.prepared[i]);
    const int64_t cache = device_->limits().l2_bytes;
    const int64_t copies =
        WeightCopies({.cold_bytes = cold_bytes,
                      .copy_bytes = copy_bytes,
                      .activation_bytes = activation_bytes,
                      .cache_bytes = cache,
                      .most_copies = kMostDeviceCopies,
                      .most_bytes = 4 * cache});  // room for two copies of weights of twice the cache
    if (copies == 1) return args;
    Result<std::shared_ptr<void>> memory = device_->Allocate((copies - 1) * copy_bytes);
    if (!memory.ok() && memory.error().kind == ErrorKind::kOutOfMemory) return args;
    copies_ = TRY(std::move(memory));
    for (int64_t i = 0; i + 1 < copies; ++i) {
      std::vector<void*>& copy = args.emplace_back(args_);
      for (const Weight& weight : weights) {
        copy[weight.arg] = static_cast<char*>(copies_.get()) + i * copy_bytes + weight.offset;
        TRY(device_->CopyWithin(copy[weight.arg], args_[weight.arg], weight.bytes));
      }
    }
    return args;
  }

  Status Fetch() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const std::span<char> memory = outputs_[i].memory();
      TRY(device_->CopyOut(memory.data(), remote_[i].get(), static_cast<int64_t>(memory.size())));
    }
    return {};
  }

  LoadedArtifact loaded_;
  const DevicePtr device_;
  std::shared_ptr<BoundKernel> kernel_;
  std::vector<Tensor> inputs_;
  std::vector<std::shared_ptr<void>> remote_, prepared_;  // outputs with their bands; prepared buffers
  std::shared_ptr<void> copies_;                          // of the weights
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

Result<std::unique_ptr<MeasuredKernel>> OnDevice(LoadedArtifact loaded, const Kernel& kernel,
                                                 std::span<const Tensor> inputs, const DevicePtr& device) {
  auto made = std::make_unique<DeviceKernel>(std::move(loaded), device);
  TRY(made->Prepare(kernel, inputs));
  return std::unique_ptr<MeasuredKernel>(std::move(made));
}

}  // namespace autotune::rpc
