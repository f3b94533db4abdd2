#include "runtime/cuda/device.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "runtime/cuda/api.h"
#include "support/hint.h"
#include "support/printf_text.h"
#include "support/utf8.h"

namespace autotune {
namespace {

using cuda::Api;
using cuda::ErrorName;

// Returns true for errors that refuse one call and do not change the context. After any other error, all later calls
// return that error.
bool IsRefusal(cuda::Code code) {
  constexpr cuda::Code kRefusals[] = {cuda::kInvalidValue,
                                      cuda::kOutOfMemory,
                                      cuda::kInvalidImage,
                                      cuda::kNoBinaryForGpu,
                                      cuda::kInvalidPtx,
                                      cuda::kJitCompilerNotFound,
                                      cuda::kUnsupportedPtxVersion,
                                      cuda::kJitCompilationDisabled,
                                      cuda::kInvalidHandle,
                                      cuda::kNotFound,
                                      cuda::kLaunchOutOfResources,
                                      cuda::kNotSupported};
  return std::find(std::begin(kRefusals), std::end(kRefusals), code) != std::end(kRefusals) ||
         (code >= cuda::kFirstCaptureError && code <= cuda::kLastCaptureError);
}

// Returns true for errors that no kernel can cause. CUDA_ERROR_UNKNOWN (999) is not one of them: kernels cause it, too.
bool IsLoss(cuda::Code code) {
  constexpr cuda::Code kLosses[] = {
      cuda::kDeviceUnavailable,   cuda::kNoDevice,       cuda::kInvalidDevice,        cuda::kEccUncorrectable,
      cuda::kNvlinkUncorrectable, cuda::kSystemNotReady, cuda::kSystemDriverMismatch, cuda::kExternalDevice};
  return std::find(std::begin(kLosses), std::end(kLosses), code) != std::end(kLosses);
}

cuda::Address AddressOf(const void* address) { return reinterpret_cast<cuda::Address>(address); }

std::string DriverVersion(const Api& api) {
  int version = 0;
  api.cuDriverGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Starts the driver and returns the number of its devices. Returns an error if there is no device.
Result<int> CountDevices(const Api& api) {
  int count = 0;
  cuda::Code code = api.cuInit(0);
  if (code == cuda::kSuccess) code = api.cuDeviceGetCount(&count);
  if (code == cuda::kNoDevice || (code == cuda::kSuccess && count == 0))
    return WithHint(Err("the CUDA driver finds no GPU"),
                    "nvidia-smi lists all GPUs, and CUDA_VISIBLE_DEVICES may hide some");
  if (code == cuda::kStubLibrary)
    return WithHint(Err("the CUDA driver is a stub of the toolkit, which runs nothing"), "install NVIDIA's driver");
  if (code != cuda::kSuccess)
    return WithHint(Err("the CUDA driver does not start: ", ErrorName(api, code)), "nvidia-smi may tell why");
  return count;
}

int AttributeOf(const Api& api, cuda::Ordinal device, int attribute) {
  int value = 0;
  api.cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

std::string NameOf(const Api& api, cuda::Ordinal device) {
  char name[256] = {};
  api.cuDeviceGetName(name, sizeof name - 1, device);
  return OneLine(name);
}

// Returns a text such as "GPU-8a6b1c0f-…", as nvidia-smi prints it; empty if the driver tells no UUID.
std::string UuidOf(const Api& api, cuda::Ordinal device) {
  cuda::Uuid uuid{};
  const auto get = api.cuDeviceGetUuid_v2 ? api.cuDeviceGetUuid_v2 : api.cuDeviceGetUuid;
  if (get(&uuid, device) != cuda::kSuccess) return "";
  std::string text = "GPU";
  for (size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += Format("%02x", static_cast<unsigned>(uuid.bytes[i]));
  }
  return text;
}

DeviceLimits LimitsOf(const Api& api, cuda::Ordinal device) {
  size_t memory = 0;
  api.cuDeviceTotalMem_v2(&memory, device);
  auto attribute = [&](int which) { return AttributeOf(api, device, which); };
  return {.memory_bytes = static_cast<int64_t>(memory),
          .shared_bytes = attribute(cuda::kSharedPerBlockOptIn),
          .threads_per_block = attribute(cuda::kMaxThreadsPerBlock),
          .units = attribute(cuda::kMultiprocessors),
          .l2_bytes = attribute(cuda::kL2Bytes),
          .architecture = "sm_" + std::to_string(attribute(cuda::kCapabilityMajor)) +
                          std::to_string(attribute(cuda::kCapabilityMinor))};
}

// A function of an image. Device::Launch gets a pointer to it as `entry`.
struct CudaFunction {
  cuda::Function handle = nullptr;
  mutable int64_t shared_bytes = 0;  // most dynamic shared memory of launches so far; guarded by the device's lock
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Api& api, cuda::Ordinal device, int id)
      : api_(api), device_(device), id_(id), limits_(LimitsOf(api, device)) {}
  ~CudaDevice() override;

  DLDevice dl() const override { return {kDLCUDA, id_}; }
  std::string Identity() const override {
    const std::string uuid = UuidOf(api_, device_);
    return uuid.empty() ? Device::Identity() : uuid;
  }
  DeviceLimits limits() const override { return limits_; }
  Result<std::shared_ptr<void>> Allocate(int64_t bytes) override;
  Status Zero(void* to, int64_t bytes) override;
  Status CopyIn(void* to, const void* host, int64_t bytes) override;
  Status CopyOut(void* host, const void* from, int64_t bytes) override;
  Status CopyWithin(void* to, const void* from, int64_t bytes) override;
  Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view format, std::string_view bytes) override;
  Status Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) override;
  Result<std::shared_ptr<DeviceGraph>> Capture(const std::function<Status()>& record) override;
  Status Synchronize() override;
  Status LastError() const override {
    std::lock_guard lock(mutex_);
    return error_;
  }
  bool IsLost() const override {
    std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  friend class CudaImage;
  friend class CudaGraph;

  // Lives during one call of the device. Holds the device's lock, creates the context if there is none, and makes it
  // current in this thread.
  class Session {
   public:
    explicit Session(CudaDevice& device) : lock_(device.mutex_), device_(device), status_(device.MakeContext()) {
      if (device_.context_) device_.api_.cuCtxPushCurrent_v2(device_.context_);
    }
    ~Session() {
      cuda::Context context = nullptr;
      if (device_.context_) device_.api_.cuCtxPopCurrent_v2(&context);
    }
    Session(const Session&) = delete;
    // Returns an error if the device has failed, before this session or at its start.
    const Status& status() const { return status_; }

   private:
    std::lock_guard<std::recursive_mutex> lock_;
    CudaDevice& device_;
    const Status status_;
  };

  Status MakeContext();
  void KeepFreedMemory();
  // Converts a code to a Status. Keeps the first final error, which all later calls return. The caller holds the lock.
  Status Check(cuda::Code code, const char* what);
  Status CheckNotCapturing(const char* what) const {
    if (capturing_) return Err(what, " cannot be part of a graph of ", DeviceText(dl()));
    return {};
  }
  void Free(cuda::Address address);
  Status Wait() { return Check(api_.cuStreamSynchronize(stream_), "a command"); }

  const Api& api_;
  const cuda::Ordinal device_;
  const int id_;
  const DeviceLimits limits_;
  // Guards the members below. Recursive: Capture holds it while its caller records.
  mutable std::recursive_mutex mutex_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  bool has_pool_ = false;
  bool capturing_ = false;
  std::vector<cuda::Address> freed_;  // memory to free after a capture, since a capture would record the call
  Status error_;
  bool lost_ = false;
};

class CudaImage final : public DeviceImage {
 public:
  CudaImage(std::shared_ptr<CudaDevice> device, cuda::Image image) : device_(std::move(device)), image_(image) {}
  ~CudaImage() override {
    CudaDevice::Session session(*device_);
    if (session.status().ok()) device_->api_.cuModuleUnload(image_);
  }

  Result<const void*> Entry(std::string_view name) const override {
    CudaDevice::Session session(*device_);
    TRY(session.status());
    std::string key(name);
    auto known = functions_.find(key);
    if (known != functions_.end()) return static_cast<const void*>(&known->second);
    CudaFunction function;
    const cuda::Code code = device_->api_.cuModuleGetFunction(&function.handle, image_, key.c_str());
    if (code == cuda::kNotFound) return Err("the image has no kernel '", OneLine(key), "'");
    TRY(device_->Check(code, "loading a kernel"));
    return static_cast<const void*>(&functions_.emplace(std::move(key), function).first->second);
  }

 private:
  const std::shared_ptr<CudaDevice> device_;
  const cuda::Image image_;
  mutable std::map<std::string, CudaFunction> functions_;  // guarded by the device's lock
};

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(std::shared_ptr<CudaDevice> device, cuda::Executable executable)
      : device_(std::move(device)), executable_(executable) {}
  ~CudaGraph() override {
    CudaDevice::Session session(*device_);
    if (session.status().ok()) device_->api_.cuGraphExecDestroy(executable_);
  }

  Status Launch() override {
    CudaDevice::Session session(*device_);
    TRY(session.status());
    TRY(device_->CheckNotCapturing("a graph"));
    return device_->Check(device_->api_.cuGraphLaunch(executable_, device_->stream_), "the launch of a graph");
  }

 private:
  const std::shared_ptr<CudaDevice> device_;
  const cuda::Executable executable_;
};

CudaDevice::~CudaDevice() {
  if (!context_) return;
  api_.cuCtxPushCurrent_v2(context_);
  if (stream_) {
    api_.cuStreamSynchronize(stream_);
    api_.cuStreamDestroy_v2(stream_);
  }
  cuda::Context context = nullptr;
  api_.cuCtxPopCurrent_v2(&context);
  api_.cuDevicePrimaryCtxRelease_v2(device_);
}

Status CudaDevice::Check(cuda::Code code, const char* what) {
  if (!error_.ok() || code == cuda::kSuccess) return error_;
  if (code == cuda::kOutOfMemory) return OutOfMemory(DeviceText(dl()), ": ", what, ": ", ErrorName(api_, code));
  Error error = Err(DeviceText(dl()), ": ", what, " failed: ", ErrorName(api_, code));
  if (!IsRefusal(code)) {
    error_ = error;
    lost_ = IsLoss(code);
  }
  return error;
}

Status CudaDevice::MakeContext() {
  if (!error_.ok() || stream_) return error_;
  if (!context_) TRY(Check(api_.cuDevicePrimaryCtxRetain(&context_, device_), "making a context"));
  api_.cuCtxPushCurrent_v2(context_);
  const cuda::Code code = api_.cuStreamCreate(&stream_, cuda::kNonBlocking);
  cuda::Context context = nullptr;
  api_.cuCtxPopCurrent_v2(&context);
  has_pool_ = api_.cuMemAllocAsync && api_.cuMemFreeAsync && AttributeOf(api_, device_, cuda::kMemoryPoolsSupported);
  if (has_pool_) KeepFreedMemory();
  return Check(code, "making a stream");
}

// Without this, the pool returns freed memory to the operating system at each synchronization, and the next allocation
// maps it again. A driver that refuses loses speed only.
void CudaDevice::KeepFreedMemory() {
  cuda::Pool pool = nullptr;
  if (!api_.cuDeviceGetDefaultMemPool || !api_.cuMemPoolSetAttribute) return;
  if (api_.cuDeviceGetDefaultMemPool(&pool, device_) != cuda::kSuccess) return;
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  api_.cuMemPoolSetAttribute(pool, cuda::kPoolReleaseThreshold, &threshold);
}

Result<std::shared_ptr<void>> CudaDevice::Allocate(int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("an allocation"));
  if (bytes < 0 || bytes > limits_.memory_bytes)
    return OutOfMemory("no ", bytes, " bytes on ", DeviceText(dl()), ", which has ", limits_.memory_bytes);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  cuda::Address address = 0;
  const cuda::Code code =
      has_pool_ ? api_.cuMemAllocAsync(&address, size, stream_) : api_.cuMemAlloc_v2(&address, size);
  if (code == cuda::kOutOfMemory) return OutOfMemory("no ", bytes, " bytes free on ", DeviceText(dl()));
  TRY(Check(code, "an allocation"));
  return std::shared_ptr<void>(reinterpret_cast<void*>(address), [this, keep = shared_from_this()](void* memory) {
    Session freeing(*this);
    if (freeing.status().ok()) Free(AddressOf(memory));
  });
}

// Frees memory, or queues it for the end of a capture. An error of these calls comes from an earlier command; Check
// keeps the error, and the device's next call returns it.
void CudaDevice::Free(cuda::Address address) {
  if (capturing_) return freed_.push_back(address);
  if (has_pool_) {
    (void)Check(api_.cuMemFreeAsync(address, stream_), "freeing memory");
  } else if (Wait().ok()) {
    (void)Check(api_.cuMemFree_v2(address), "freeing memory");
  }
}

Status CudaDevice::Zero(void* to, int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  if (bytes == 0) return {};
  return Check(api_.cuMemsetD8Async(AddressOf(to), 0, static_cast<size_t>(bytes), stream_), "a fill");
}

// Waits for the copy, since the driver may still read the host's pageable memory when cuMemcpyHtoDAsync returns.
Status CudaDevice::CopyIn(void* to, const void* host, int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("a copy from the host"));
  if (bytes == 0) return {};
  TRY(Check(api_.cuMemcpyHtoDAsync_v2(AddressOf(to), host, static_cast<size_t>(bytes), stream_), "a copy"));
  return Wait();
}

Status CudaDevice::CopyOut(void* host, const void* from, int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("a copy to the host"));
  if (bytes == 0) return {};
  TRY(Check(api_.cuMemcpyDtoHAsync_v2(host, AddressOf(from), static_cast<size_t>(bytes), stream_), "a copy"));
  return Wait();
}

Status CudaDevice::CopyWithin(void* to, const void* from, int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  if (bytes == 0) return {};
  return Check(api_.cuMemcpyDtoDAsync_v2(AddressOf(to), AddressOf(from), static_cast<size_t>(bytes), stream_),
               "a copy");
}

Status CudaDevice::Synchronize() {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("waiting"));
  return Wait();
}

// Returns the first line of the compiler's log with an error, else its first line that is not empty.
std::string FirstErrorOf(const std::string& log) {
  size_t at = log.find("error");
  if (at == std::string::npos) at = log.find_first_not_of("\n ");
  if (at == std::string::npos) return "";
  const size_t begin = log.rfind('\n', at) == std::string::npos ? 0 : log.rfind('\n', at) + 1;
  return ": " + OneLine(log.substr(begin, log.find('\n', at) - begin));
}

Result<std::shared_ptr<const DeviceImage>> CudaDevice::LoadImage(std::string_view format, std::string_view bytes) {
  if (format != "ptx" && format != "cubin")
    return Err(DeviceText(dl()), " takes PTX (ptx) and machine code (cubin), not ", OneLine(format));
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("loading an image"));
  const std::string text(bytes);  // adds the zero byte that must end PTX
  std::string log(16 << 10, '\0');
  int options[] = {cuda::kErrorLogBuffer, cuda::kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  cuda::Image image = nullptr;
  const cuda::Code code = api_.cuModuleLoadDataEx(&image, text.c_str(), std::size(options), options, values);
  log.resize(std::strlen(log.c_str()));
  switch (code) {
    case cuda::kSuccess:
      break;
    case cuda::kUnsupportedPtxVersion:
      return Err("the driver of ", DeviceText(dl()), ", for CUDA ", DriverVersion(api_),
                 ", is too old for this PTX: update NVIDIA's driver", FirstErrorOf(log));
    case cuda::kNoBinaryForGpu:
    case cuda::kInvalidImage:
      return Err("this ", format, " is not for ", limits_.architecture, ", which ", DeviceText(dl()),
                 " is: ", ErrorName(api_, code), FirstErrorOf(log));
    case cuda::kInvalidPtx:
      return Err("the driver's compiler refuses the PTX: ", ErrorName(api_, code), FirstErrorOf(log));
    default:
      TRY(Check(code, "loading an image"));
  }
  auto self = std::static_pointer_cast<CudaDevice>(shared_from_this());
  return std::shared_ptr<const DeviceImage>(std::make_shared<CudaImage>(std::move(self), image));
}

Status CudaDevice::Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) {
  const auto& function = *static_cast<const CudaFunction*>(entry);
  unsigned grid[3], block[3];
  for (int i = 0; i < 3; ++i) {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    if (geometry.grid[i] > kMost || geometry.block[i] > kMost)
      return Err("cannot launch ", geometry.grid[i], " blocks of ", geometry.block[i], " threads in one dimension");
    grid[i] = static_cast<unsigned>(geometry.grid[i]);
    block[i] = static_cast<unsigned>(geometry.block[i]);
  }
  std::vector<void*> addresses(args.begin(), args.end()), places;
  for (void*& address : addresses) places.push_back(&address);
  Session session(*this);
  TRY(session.status());
  // The attribute must be set before a launch may use more than 48 KiB of static and dynamic shared memory.
  if (geometry.shared_bytes > function.shared_bytes) {
    TRY(Check(
        api_.cuFuncSetAttribute(function.handle, cuda::kMaxDynamicSharedBytes, static_cast<int>(geometry.shared_bytes)),
        "requesting shared memory"));
    function.shared_bytes = geometry.shared_bytes;
  }
  return Check(api_.cuLaunchKernel(function.handle, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                   static_cast<unsigned>(geometry.shared_bytes), stream_, places.data(), nullptr),
               "a launch");
}

Result<std::shared_ptr<DeviceGraph>> CudaDevice::Capture(const std::function<Status()>& record) {
  if (!api_.has_graphs()) return std::shared_ptr<DeviceGraph>();
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("a capture"));
  TRY(Check(api_.cuStreamBeginCapture_v2(stream_, cuda::kThreadLocal), "the begin of a capture"));
  capturing_ = true;
  Status recorded = record();
  capturing_ = false;
  cuda::Graph graph = nullptr;
  cuda::Executable executable = nullptr;
  const cuda::Code ended = api_.cuStreamEndCapture(stream_, &graph);
  for (cuda::Address address : std::exchange(freed_, {})) Free(address);
  if (recorded.ok()) recorded = Check(ended, "a capture");
  if (recorded.ok()) recorded = Check(api_.cuGraphInstantiateWithFlags(&executable, graph, 0), "making a graph");
  if (graph) api_.cuGraphDestroy(graph);
  TRY(std::move(recorded));
  auto self = std::static_pointer_cast<CudaDevice>(shared_from_this());
  return std::shared_ptr<DeviceGraph>(std::make_shared<CudaGraph>(std::move(self), executable));
}

}  // namespace

Result<std::vector<DeviceEntry>> CudaDevices() {
  const Api& api = *TRY(cuda::LoadDriver());
  const int count = TRY(CountDevices(api));
  std::vector<DeviceEntry> devices;
  for (int i = 0; i < count; ++i) {
    cuda::Ordinal device = 0;
    const cuda::Code code = api.cuDeviceGet(&device, i);
    devices.push_back(code == cuda::kSuccess ? DeviceEntry{NameOf(api, device), UuidOf(api, device)}
                                             : DeviceEntry{ErrorName(api, code), ""});
  }
  return devices;
}

Result<DevicePtr> OpenCudaDevice(int id) {
  const Api& api = *TRY(cuda::LoadDriver());
  TRY(FindDevice("CUDA", TRY(CudaDevices()), std::to_string(id)));
  cuda::Ordinal handle = 0;
  if (const cuda::Code code = api.cuDeviceGet(&handle, id); code != cuda::kSuccess)
    return Err("the CUDA driver cannot open device ", id, ": ", ErrorName(api, code), "; nvidia-smi may tell why");
  static std::mutex mutex;
  static auto& opened = *new std::map<int, std::weak_ptr<CudaDevice>>;  // guarded by mutex
  std::lock_guard lock(mutex);
  if (std::shared_ptr<CudaDevice> known = opened[id].lock(); known && known->LastError().ok()) return DevicePtr(known);
  auto device = std::make_shared<CudaDevice>(api, handle, id);
  opened[id] = device;
  return DevicePtr(std::move(device));
}

}  // namespace autotune
