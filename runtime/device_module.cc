#include "runtime/device_module.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "runtime/bound_kernel.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
constexpr std::string_view kLaunchAxes[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                            "threadIdx.x", "threadIdx.y", "threadIdx.z"};

struct DeviceModule : ModuleNode {
  std::string type_key;
  DeviceCode code;
  std::mutex mutex;
  // Guarded by mutex. Each image keeps its device, the key, alive.
  std::map<const Device*, std::shared_ptr<const DeviceImage>> images;

  std::string_view TypeKey() const override { return type_key; }
  std::vector<std::string> FunctionNames() const override {
    std::vector<std::string> names;
    for (const auto& [name, function] : code.functions) names.push_back(name);
    return names;
  }

  Result<std::shared_ptr<const DeviceImage>> ImageFor(const DevicePtr& device) {
    std::lock_guard lock(mutex);
    // Drop the images of failed devices: they are useless, and an image keeps its device alive.
    std::erase_if(images, [](const auto& entry) { return !entry.first->LastError().ok(); });
    std::shared_ptr<const DeviceImage>& image = images[device.get()];
    if (!image)
      image = TRY_NOTE(device->LoadImage(code.format, code.image), "while loading a module of type " + type_key);
    return image;
  }

  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
    auto function = code.functions.find(std::string(name));
    if (function == code.functions.end()) return {};
    auto self = std::static_pointer_cast<DeviceModule>(shared_from_this());
    return PackedFunc(
        [self, function](std::span<const Value> args) { return self->Call(function->first, function->second, args); });
  }

  // Calls the function as entry(tensors..., extents of the launch axes...).
  Result<Value> Call(const std::string& name, const DeviceFunction& function, std::span<const Value> args) {
    const size_t tensors = function.arg_types.size();
    if (args.size() != tensors + function.launch_axes.size()) {
      return Err(name, " takes ", tensors, " tensors and ", function.launch_axes.size(), " extents, got ", args.size(),
                 " arguments");
    }
    DevicePtr device;
    std::vector<void*> addresses;
    for (size_t i = 0; i < tensors; ++i) {
      Tensor tensor = TRY(detail::Argument<Tensor>(args, i));
      if (!tensor.defined() || !tensor.device() || DeviceTypeName(tensor.device()->dl().device_type) != type_key)
        return Err("argument ", i, " of ", name, " is no tensor of a device of kind ", type_key);
      if (device && device.get() != tensor.device()) return Err("arguments of ", name, " lie on different devices");
      device = tensor.device()->shared_from_this();
      addresses.push_back(tensor.data());
    }
    if (!device) return Err(name, " takes no tensors, so its device is unknown");
    LaunchGeometry geometry;
    for (size_t i = 0; i < function.launch_axes.size(); ++i) {
      auto extent = TRY(detail::Argument<int64_t>(args, tensors + i));
      if (extent < 1) return Err("extent ", extent, " of ", function.launch_axes[i], " is below 1");
      const size_t axis = std::find(std::begin(kLaunchAxes), std::end(kLaunchAxes), function.launch_axes[i]) -
                          std::begin(kLaunchAxes);  // found: MakeDeviceModule has checked the names
      (axis < 3 ? geometry.grid[axis] : geometry.block[axis - 3]) = extent;
    }
    auto image = TRY(ImageFor(device));
    TRY(device->Launch(TRY(image->Entry(name)), geometry, addresses));
    return Value();
  }

  Status Save(ByteWriter& out) const override {
    out.Text(code.format);
    out.Number(static_cast<uint64_t>(code.functions.size()));
    for (const auto& [name, function] : code.functions) {
      out.Text(name);
      out.Text(name);
      out.Number(static_cast<uint64_t>(function.arg_types.size()));
      for (DLDataType type : function.arg_types) {
        out.Number(type.code);
        out.Number(type.bits);
        out.Number(type.lanes);
      }
      out.Texts(function.launch_axes);
    }
    out.Text(code.image);
    return {};
  }
};

// A kernel as a list of launches. Entries and geometry are resolved; the caller passes the addresses.
class LaunchList final : public BoundKernel {
 public:
  struct Step {
    const void* entry = nullptr;
    LaunchGeometry geometry;
    std::vector<LaunchArg> args;
  };

  LaunchList(std::shared_ptr<const Artifact> artifact, const KernelMetadata& metadata, DevicePtr device)
      : BoundKernel(metadata), artifact_(std::move(artifact)), device_(std::move(device)) {}

  Status Bind(const std::vector<Module>& modules) {
    const KernelMetadata& kernel = metadata();
    for (const Launch& launch : kernel.launches) run_.push_back(TRY(StepOf(launch, modules)));
    for (const Launch& launch : kernel.prepare) prepare_.push_back(TRY(StepOf(launch, modules)));
    return {};
  }

  int64_t ScratchBytes() const override { return metadata().workspace_bytes; }
  void SetScratch(std::shared_ptr<void> memory) override { workspace_ = std::move(memory); }
  Status Run(void* const* args) override { return Start(run_, args, metadata().params.size()); }
  Status Prepare(void* const* args) override {
    return Start(prepare_, args, ParamsOfKind(ParamKind::kConstant).size());
  }

 private:
  static std::array<int64_t, 3> Extents(const std::vector<int64_t>& list) {
    std::array<int64_t, 3> extents = {1, 1, 1};
    std::copy(list.begin(), list.end(), extents.begin());
    return extents;
  }

  Status CheckLimits(const Launch& launch, const LaunchGeometry& geometry) const {
    const DeviceLimits limits = device_->limits();
    const int64_t threads = geometry.block[0] * geometry.block[1] * geometry.block[2];
    if (threads > limits.threads_per_block || launch.shared_bytes > limits.shared_bytes) {
      return Err("kernel ", metadata().name, ": a block needs ", threads, " threads and ", launch.shared_bytes,
                 " bytes of shared memory; ", DeviceText(device_->dl()), " has at most ", limits.threads_per_block,
                 " and ", limits.shared_bytes);
    }
    return {};
  }

  // Returns the modules for this kind of device that have the function. Machine code comes first, since the driver need
  // not translate it; PTX serves other GPUs.
  std::vector<DeviceModule*> CodesOf(const std::vector<Module>& modules, const std::string& entry) const {
    std::vector<DeviceModule*> codes;
    for (const Module& module : modules) {
      auto* code = dynamic_cast<DeviceModule*>(module.get());
      if (code && code->type_key == metadata().device && code->code.functions.contains(entry)) codes.push_back(code);
    }
    std::ranges::stable_partition(codes, [](const DeviceModule* code) { return code->code.format == "cubin"; });
    return codes;
  }

  Result<Step> StepOf(const Launch& launch, const std::vector<Module>& modules) {
    Step step{nullptr, {Extents(launch.grid), Extents(launch.block), launch.shared_bytes}, launch.args};
    TRY(CheckLimits(launch, step.geometry));
    std::optional<Error> unfit;  // why machine code does not fit the device
    for (DeviceModule* code : CodesOf(modules, launch.entry)) {
      const size_t takes = code->code.functions.at(launch.entry).arg_types.size();
      if (takes != launch.args.size()) {
        return Err("kernel ", metadata().name, ": function ", launch.entry, " takes ", takes,
                   " addresses, its launch has ", launch.args.size());
      }
      auto image = code->ImageFor(device_);
      if (!image.ok() && code->code.format == "cubin" && device_->LastError().ok()) {
        unfit = image.error();
        continue;
      }
      images_.push_back(TRY(std::move(image)));
      step.entry = TRY(images_.back()->Entry(launch.entry));
      return step;
    }
    if (unfit) return *unfit;
    return Err("kernel ", metadata().name, ": no imported module of type ", metadata().device, " has its function '",
               launch.entry, "'");
  }

  // Starts the launches. `args` are `params` addresses of parameters, then the addresses of the prepared buffers.
  Status Start(const std::vector<Step>& steps, void* const* args, size_t params) {
    for (const Step& step : steps) {
      addresses_.clear();
      for (const LaunchArg& arg : step.args) {
        addresses_.push_back(arg.kind == LaunchArgKind::kWorkspace
                                 ? static_cast<char*>(workspace_.get()) + arg.index
                                 : args[arg.index + (arg.kind == LaunchArgKind::kPrepared ? params : 0)]);
      }
      TRY(device_->Launch(step.entry, step.geometry, addresses_));
    }
    return {};
  }

  const std::shared_ptr<const Artifact> artifact_;
  const DevicePtr device_;
  std::shared_ptr<void> workspace_;
  std::vector<std::shared_ptr<const DeviceImage>> images_;
  std::vector<Step> run_, prepare_;
  std::vector<void*> addresses_;
};

}  // namespace

Module MakeDeviceModule(std::string type_key, DeviceCode code) {
  for (const auto& [name, function] : code.functions) {
    for (const std::string& axis : function.launch_axes) {
      CHECK(std::find(std::begin(kLaunchAxes), std::end(kLaunchAxes), axis) != std::end(kLaunchAxes)) << axis;
    }
  }
  auto module = std::make_shared<DeviceModule>();
  module->type_key = std::move(type_key);
  module->code = std::move(code);
  return module;
}

Result<Module> LoadDeviceModule(std::string type_key, ByteReader& in) {
  DeviceCode code;
  code.format = TRY(in.Text());
  const uint64_t count = TRY(in.Count(4 * sizeof(uint64_t)));
  for (uint64_t i = 0; i < count; ++i) {
    std::string name(TRY(in.Text()));
    if (TRY(in.Text()) != name) return Err("function '", OneLine(name), "' has another name in the image");
    DeviceFunction function;
    function.arg_types.resize(TRY(in.Count(4)));
    for (DLDataType& type : function.arg_types) {
      type.code = TRY(in.Number<uint8_t>());
      type.bits = TRY(in.Number<uint8_t>());
      type.lanes = TRY(in.Number<uint16_t>());
      if (!(type == kAddress)) return Err("function '", OneLine(name), "' takes something else than addresses");
    }
    function.launch_axes = TRY(in.Texts());
    for (const std::string& axis : function.launch_axes) {
      if (std::find(std::begin(kLaunchAxes), std::end(kLaunchAxes), axis) == std::end(kLaunchAxes))
        return Err("function '", OneLine(name), "': unknown launch axis '", OneLine(axis.substr(0, 32)), "'");
    }
    if (!code.functions.emplace(name, std::move(function)).second)
      return Err("function '", OneLine(name), "' occurs twice");
  }
  code.image = TRY(in.Text());
  return MakeDeviceModule(std::move(type_key), std::move(code));
}

Result<std::shared_ptr<BoundKernel>> BindLaunches(std::shared_ptr<const Artifact> artifact,
                                                  const KernelMetadata& metadata, const std::vector<Module>& modules,
                                                  const DevicePtr& device) {
  auto kernel = std::make_shared<LaunchList>(std::move(artifact), metadata, device);
  TRY(kernel->Bind(modules));
  return std::shared_ptr<BoundKernel>(std::move(kernel));
}

}  // namespace autotune
