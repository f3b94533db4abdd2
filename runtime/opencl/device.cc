#include "runtime/opencl/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/opencl/api.h"
#include "support/utf8.h"

namespace autotune {
namespace {

using opencl::Api;
using opencl::ErrorName;

constexpr cl_uint kAlignment = 128;  // bytes; a cache line of common GPUs (Device requires at least 64)

std::vector<cl_device_id> DevicesOf(const Api& api, cl_platform_id platform, cl_device_type type) {
  cl_uint count = 0;
  if (api.GetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_device_id> devices(count);
  if (count > 0) api.GetDeviceIDs(platform, type, count, devices.data(), nullptr);
  return devices;
}

std::vector<cl_device_id> DevicesOfType(const Api& api, cl_device_type type) {
  cl_uint platforms = 0;
  std::vector<cl_device_id> devices;
  if (api.GetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS || platforms == 0) return devices;
  std::vector<cl_platform_id> ids(platforms);
  api.GetPlatformIDs(platforms, ids.data(), nullptr);
  for (cl_platform_id platform : ids) {
    const std::vector<cl_device_id> own = DevicesOf(api, platform, type);
    devices.insert(devices.end(), own.begin(), own.end());
  }
  return devices;
}

Result<std::vector<cl_device_id>> FindDevices(const Api& api) {
  std::vector<cl_device_id> devices = DevicesOfType(api, CL_DEVICE_TYPE_GPU);
  if (devices.empty()) devices = DevicesOfType(api, CL_DEVICE_TYPE_ALL);
  if (devices.empty()) return Err("this machine has libOpenCL, but no OpenCL device; the program clinfo lists devices");
  return devices;
}

template <class T>
T InfoOf(const Api& api, cl_device_id device, cl_device_info what) {
  T value{};
  api.GetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

std::string NameOf(const Api& api, cl_device_id device) {
  char name[256] = {};
  api.GetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, nullptr);
  return OneLine(name);
}

// OpenCL 2.0 has no UUIDs. Returns the platform's name, the device's name, and the device's place on its platform.
std::string IdentityOf(const Api& api, cl_device_id device) {
  auto platform = InfoOf<cl_platform_id>(api, device, CL_DEVICE_PLATFORM);
  char name[256] = {};
  api.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  const std::vector<cl_device_id> devices = DevicesOf(api, platform, CL_DEVICE_TYPE_ALL);
  const auto place = std::find(devices.begin(), devices.end(), device) - devices.begin();
  return OneLine(name) + " " + NameOf(api, device) + " " + std::to_string(place);
}

class OpenClDevice final : public Device {
 public:
  OpenClDevice(const Api& api, cl_device_id device, int id)
      : api_(api), device_(device), id_(id), identity_(IdentityOf(api, device)) {}
  ~OpenClDevice() override {
    if (queue_) api_.Finish(queue_);
    if (queue_) api_.ReleaseCommandQueue(queue_);
    if (context_) api_.ReleaseContext(context_);
  }

  Status Open() {
    const auto svm = InfoOf<cl_device_svm_capabilities>(api_, device_, CL_DEVICE_SVM_CAPABILITIES);
    if (!(svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))
      return Err(NameOf(api_, device_), " has no shared virtual memory (OpenCL 2.0), on which this runtime relies");
    cl_int code = CL_SUCCESS;
    context_ = api_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &code);
    if (context_) queue_ = api_.CreateCommandQueueWithProperties(context_, device_, nullptr, &code);
    if (!queue_) return Err("cannot open ", NameOf(api_, device_), ": ", ErrorName(code));
    return {};
  }

  DLDevice dl() const override { return {kDLOpenCL, id_}; }
  std::string Identity() const override { return identity_; }
  DeviceLimits limits() const override {
    return {.memory_bytes = static_cast<int64_t>(InfoOf<cl_ulong>(api_, device_, CL_DEVICE_GLOBAL_MEM_SIZE)),
            .shared_bytes = static_cast<int64_t>(InfoOf<cl_ulong>(api_, device_, CL_DEVICE_LOCAL_MEM_SIZE)),
            .threads_per_block = static_cast<int64_t>(InfoOf<size_t>(api_, device_, CL_DEVICE_MAX_WORK_GROUP_SIZE)),
            .units = static_cast<int64_t>(InfoOf<cl_uint>(api_, device_, CL_DEVICE_MAX_COMPUTE_UNITS))};
  }

  Result<std::shared_ptr<void>> Allocate(int64_t bytes) override;
  Status Zero(void* to, int64_t bytes) override;
  Status CopyIn(void* to, const void* host, int64_t bytes) override { return Copy(to, host, bytes, CL_TRUE); }
  Status CopyOut(void* host, const void* from, int64_t bytes) override { return Copy(host, from, bytes, CL_TRUE); }
  Status CopyWithin(void* to, const void* from, int64_t bytes) override { return Copy(to, from, bytes, CL_FALSE); }
  Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view format, std::string_view bytes) override;
  Status Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) override;
  Status Synchronize() override {
    std::lock_guard lock(mutex_);
    return Check(api_.Finish(queue_), "waiting for the queue");
  }
  Status LastError() const override {
    std::lock_guard lock(mutex_);
    return error_;
  }
  bool IsLost() const override {
    std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  friend class OpenClImage;

  // Converts a code to a Status. Keeps the first error, which all later commands return. The caller holds the mutex.
  Status Check(cl_int code, const char* what) {
    if (!error_.ok() || code == CL_SUCCESS) return error_;
    error_ = Err(DeviceText(dl()), ": ", what, " failed: ", ErrorName(code));
    lost_ = opencl::IsLoss(code);
    return error_;
  }

  Status Copy(void* to, const void* from, int64_t bytes, cl_bool wait) {
    std::lock_guard lock(mutex_);
    if (!error_.ok() || bytes == 0) return error_;
    return Check(api_.EnqueueSVMMemcpy(queue_, wait, to, from, bytes, 0, nullptr, nullptr), "a copy");
  }

  const Api& api_;
  const cl_device_id device_;
  const int id_;
  const std::string identity_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  mutable std::mutex mutex_;  // guards the queue, the arguments of kernels, and the members below
  Status error_;
  bool lost_ = false;
};

class OpenClImage final : public DeviceImage {
 public:
  explicit OpenClImage(std::shared_ptr<OpenClDevice> device) : device_(std::move(device)) {}
  ~OpenClImage() override {
    for (const auto& [name, kernel] : kernels_) device_->api_.ReleaseKernel(kernel);
    if (program_) device_->api_.ReleaseProgram(program_);
  }

  Status Build(std::string_view source) {
    const Api& api = device_->api_;
    const char* text = source.data();
    const size_t size = source.size();
    cl_int code = CL_SUCCESS;
    program_ = api.CreateProgramWithSource(device_->context_, 1, &text, &size, &code);
    if (!program_) return Err("OpenCL does not accept the program: ", ErrorName(code));
    code = api.BuildProgram(program_, 1, &device_->device_, "", nullptr, nullptr);
    if (code == CL_SUCCESS) return {};
    return Err("OpenCL's compiler refuses the program, ", ErrorName(code), ": ", FirstError());
  }

  Result<const void*> Entry(std::string_view name) const override {
    std::lock_guard lock(mutex_);
    cl_kernel& kernel = kernels_[std::string(name)];
    cl_int code = CL_SUCCESS;
    if (!kernel) kernel = device_->api_.CreateKernel(program_, std::string(name).c_str(), &code);
    if (kernel) return static_cast<const void*>(kernel);
    kernels_.erase(std::string(name));
    return Err("the image has no kernel '", OneLine(name), "': ", ErrorName(code));
  }

 private:
  // Returns the first line of the build log with an error, else its first line that is not empty.
  std::string FirstError() const {
    std::string log(16 << 10, '\0');
    device_->api_.GetProgramBuildInfo(program_, device_->device_, CL_PROGRAM_BUILD_LOG, log.size(), log.data(),
                                      nullptr);
    log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
    size_t at = log.find("error");
    if (at == std::string::npos) at = log.find_first_not_of("\n ");
    if (at == std::string::npos) return "the compiler gives no reason";
    const size_t begin = log.rfind('\n', at) == std::string::npos ? 0 : log.rfind('\n', at) + 1;
    return OneLine(log.substr(begin, log.find('\n', at) - begin));
  }

  const std::shared_ptr<OpenClDevice> device_;
  cl_program program_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, cl_kernel> kernels_;  // guarded by mutex_
};

Result<std::shared_ptr<void>> OpenClDevice::Allocate(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!error_.ok()) return error_.error();
  void* memory =
      bytes < 0 ? nullptr : api_.SVMAlloc(context_, CL_MEM_READ_WRITE, std::max<int64_t>(bytes, 1), kAlignment);
  if (!memory) return OutOfMemory("no ", bytes, " bytes on ", DeviceText(dl()));
  return std::shared_ptr<void>(memory, [this, keep = shared_from_this()](void* p) {
    std::lock_guard free_lock(mutex_);
    api_.EnqueueSVMFree(queue_, 1, &p, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Status OpenClDevice::Zero(void* to, int64_t bytes) {
  const cl_uchar zero = 0;
  std::lock_guard lock(mutex_);
  if (!error_.ok() || bytes == 0) return error_;
  return Check(api_.EnqueueSVMMemFill(queue_, to, &zero, sizeof zero, bytes, 0, nullptr, nullptr), "a fill");
}

Result<std::shared_ptr<const DeviceImage>> OpenClDevice::LoadImage(std::string_view format, std::string_view bytes) {
  if (format != "cl") return Err(DeviceText(dl()), " takes OpenCL C (cl), not ", OneLine(format));
  auto image = std::make_shared<OpenClImage>(std::static_pointer_cast<OpenClDevice>(shared_from_this()));
  TRY(image->Build(bytes));
  return std::shared_ptr<const DeviceImage>(std::move(image));
}

Status OpenClDevice::Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) {
  auto kernel = static_cast<cl_kernel>(const_cast<void*>(entry));
  std::lock_guard lock(mutex_);
  if (!error_.ok()) return error_;
  cl_uint index = 0;
  for (void* address : args) TRY(Check(api_.SetKernelArgSVMPointer(kernel, index++, address), "an argument"));
  if (geometry.shared_bytes > 0)
    TRY(Check(api_.SetKernelArg(kernel, index, geometry.shared_bytes, nullptr), "the shared memory"));
  size_t global[3], local[3];
  for (int i = 0; i < 3; ++i) {
    local[i] = geometry.block[i];
    global[i] = geometry.grid[i] * geometry.block[i];
  }
  return Check(api_.EnqueueNDRangeKernel(queue_, kernel, 3, nullptr, global, local, 0, nullptr, nullptr), "a launch");
}

}  // namespace

Result<std::vector<DeviceEntry>> OpenClDevices() {
  const Api& api = *TRY(opencl::LoadApi());
  std::vector<DeviceEntry> devices;
  for (cl_device_id device : TRY(FindDevices(api))) devices.push_back({NameOf(api, device), ""});
  return devices;
}

Result<DevicePtr> OpenOpenClDevice(int id) {
  const Api& api = *TRY(opencl::LoadApi());
  std::vector<cl_device_id> devices = TRY(FindDevices(api));
  TRY(FindDevice("OpenCL", TRY(OpenClDevices()), std::to_string(id)));
  static std::mutex mutex;
  static auto& opened = *new std::map<int, std::weak_ptr<OpenClDevice>>;  // guarded by mutex
  std::lock_guard lock(mutex);
  if (std::shared_ptr<OpenClDevice> known = opened[id].lock(); known && known->LastError().ok())
    return DevicePtr(known);
  auto device = std::make_shared<OpenClDevice>(api, devices[id], id);
  TRY(device->Open());
  opened[id] = device;
  return DevicePtr(std::move(device));
}

}  // namespace autotune
