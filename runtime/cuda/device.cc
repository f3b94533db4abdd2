#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/cuda/cuda_device.h"
#include "support/utf8.h"

namespace autotune::cuda {
namespace {

// Returns true for errors that refuse one call and do not change the context. After any other error, all later calls
// return that error.
bool IsRefusal(Code code) {
  constexpr Code kRefusals[] = {kInvalidValue,
                                kOutOfMemory,
                                kInvalidImage,
                                kNoBinaryForGpu,
                                kInvalidPtx,
                                kJitCompilerNotFound,
                                kUnsupportedPtxVersion,
                                kJitCompilationDisabled,
                                kInvalidSource,
                                kInvalidHandle,
                                kNotFound,
                                kLaunchOutOfResources,
                                kNotSupported};
  return std::find(std::begin(kRefusals), std::end(kRefusals), code) != std::end(kRefusals) ||
         (code >= kFirstCaptureError && code <= kLastCaptureError);
}

// Returns true for errors that no kernel can cause. CUDA_ERROR_UNKNOWN (999) is not one of them: kernels cause it, too.
bool IsLoss(Code code) {
  constexpr Code kLosses[] = {kDeviceUnavailable,   kNoDevice,       kInvalidDevice,        kEccUncorrectable,
                              kNvlinkUncorrectable, kSystemNotReady, kSystemDriverMismatch, kExternalDevice};
  return std::find(std::begin(kLosses), std::end(kLosses), code) != std::end(kLosses);
}

Address AddressOf(const void* address) { return reinterpret_cast<Address>(address); }

}  // namespace

class CudaImage final : public DeviceImage {
 public:
  CudaImage(std::shared_ptr<CudaDevice> device, Image image) : device_(std::move(device)), image_(image) {}
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
    const Code code = device_->api_.cuModuleGetFunction(&function.handle, image_, key.c_str());
    if (code == kNotFound) return Err("the image has no kernel '", OneLine(key), "'");
    TRY(device_->Check(code, "loading a kernel"));
    return static_cast<const void*>(&functions_.emplace(std::move(key), function).first->second);
  }

 private:
  const std::shared_ptr<CudaDevice> device_;
  const Image image_;
  mutable std::map<std::string, CudaFunction> functions_;  // guarded by the device's lock
};

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(std::shared_ptr<CudaDevice> device, Executable executable)
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
  const Executable executable_;
};

CudaDevice::~CudaDevice() {
  if (!context_) return;
  api_.cuCtxPushCurrent_v2(context_);
  FreeReference();
  for (Event event : {begin_, end_}) {
    if (event) api_.cuEventDestroy_v2(event);
  }
  if (stream_) {
    api_.cuStreamSynchronize(stream_);
    api_.cuStreamDestroy_v2(stream_);
  }
  Context context = nullptr;
  api_.cuCtxPopCurrent_v2(&context);
  api_.cuDevicePrimaryCtxRelease_v2(device_);
}

Status CudaDevice::Check(Code code, const char* what) {
  if (!error_.ok() || code == kSuccess) return error_;
  if (code == kOutOfMemory) return OutOfMemory(DeviceText(dl()), ": ", what, ": ", ErrorName(api_, code));
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
  const Code code = api_.cuStreamCreate(&stream_, kNonBlocking);
  Context context = nullptr;
  api_.cuCtxPopCurrent_v2(&context);
  has_pool_ = api_.cuMemAllocAsync && api_.cuMemFreeAsync && AttributeOf(api_, device_, kMemoryPoolsSupported);
  if (has_pool_) KeepFreedMemory();
  return Check(code, "making a stream");
}

// Without this, the pool returns freed memory to the operating system at each synchronization, and the next allocation
// maps it again. A driver that refuses loses speed only.
void CudaDevice::KeepFreedMemory() {
  Pool pool = nullptr;
  if (!api_.cuDeviceGetDefaultMemPool || !api_.cuMemPoolSetAttribute) return;
  if (api_.cuDeviceGetDefaultMemPool(&pool, device_) != kSuccess) return;
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  api_.cuMemPoolSetAttribute(pool, kPoolReleaseThreshold, &threshold);
}

Result<std::shared_ptr<void>> CudaDevice::Allocate(int64_t bytes) {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("an allocation"));
  if (bytes < 0 || bytes > limits_.memory_bytes)
    return OutOfMemory("no ", bytes, " bytes on ", DeviceText(dl()), ", which has ", limits_.memory_bytes);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  Address address = 0;
  const Code code = has_pool_ ? api_.cuMemAllocAsync(&address, size, stream_) : api_.cuMemAlloc_v2(&address, size);
  if (code == kOutOfMemory) return OutOfMemory("no ", bytes, " bytes free on ", DeviceText(dl()));
  TRY(Check(code, "an allocation"));
  return std::shared_ptr<void>(reinterpret_cast<void*>(address), [this, keep = shared_from_this()](void* memory) {
    Session freeing(*this);
    if (freeing.status().ok()) Free(AddressOf(memory));
  });
}

// Frees memory, or queues it for the end of a capture. An error of these calls comes from an earlier command; Check
// keeps the error, and the device's next call returns it.
void CudaDevice::Free(Address address) {
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

namespace {

// Returns the first line of the compiler's log with an error, else its first line that is not empty.
std::string FirstErrorOf(const std::string& log) {
  size_t at = log.find("error");
  if (at == std::string::npos) at = log.find_first_not_of("\n ");
  if (at == std::string::npos) return "";
  const size_t begin = log.rfind('\n', at) == std::string::npos ? 0 : log.rfind('\n', at) + 1;
  return ": " + OneLine(log.substr(begin, log.find('\n', at) - begin));
}

}  // namespace

Result<std::shared_ptr<const DeviceImage>> CudaDevice::LoadImage(std::string_view format, std::string_view bytes) {
  if (format != "ptx" && format != "cubin")
    return Err(DeviceText(dl()), " takes PTX (ptx) and machine code (cubin), not ", OneLine(format));
  {
    Session session(*this);
    TRY(session.status());
    TRY(CheckNotCapturing("loading an image"));
  }
  const std::string text(bytes);  // adds the zero byte that must end PTX
  std::string log(16 << 10, '\0');
  int options[] = {kErrorLogBuffer, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  Image image = nullptr;
  // Without the device's lock: a translation takes long, and other threads may go on meanwhile.
  const Code code = [&] {
    std::shared_lock loading(loading_);
    Context context = nullptr;
    api_.cuCtxPushCurrent_v2(context_);
    const Code loaded = api_.cuModuleLoadDataEx(&image, text.c_str(), std::size(options), options, values);
    api_.cuCtxPopCurrent_v2(&context);
    return loaded;
  }();
  Session session(*this);
  log.resize(std::strlen(log.c_str()));
  switch (code) {
    case kSuccess:
      break;
    case kUnsupportedPtxVersion:
      return Err("the driver of ", DeviceText(dl()), ", for CUDA ", DriverVersion(api_),
                 ", is too old for this PTX: update NVIDIA's driver", FirstErrorOf(log));
    case kNoBinaryForGpu:
    case kInvalidImage:
      return Err("this ", format, " is not for ", limits_.architecture, ", which ", DeviceText(dl()),
                 " is: ", ErrorName(api_, code), FirstErrorOf(log));
    case kInvalidPtx:
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
    TRY(Check(api_.cuFuncSetAttribute(function.handle, kMaxDynamicSharedBytes, static_cast<int>(geometry.shared_bytes)),
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
  std::unique_lock loading(loading_);
  TRY(Check(api_.cuStreamBeginCapture_v2(stream_, kThreadLocal), "the begin of a capture"));
  capturing_ = true;
  Status recorded = record();
  capturing_ = false;
  Graph graph = nullptr;
  Executable executable = nullptr;
  const Code ended = api_.cuStreamEndCapture(stream_, &graph);
  for (Address address : std::exchange(freed_, {})) Free(address);
  if (recorded.ok()) recorded = Check(ended, "a capture");
  if (recorded.ok()) recorded = Check(api_.cuGraphInstantiateWithFlags(&executable, graph, 0), "making a graph");
  if (graph) api_.cuGraphDestroy(graph);
  TRY(std::move(recorded));
  if (api_.cuGraphUpload) TRY(Check(api_.cuGraphUpload(executable, stream_), "uploading a graph"));
  auto self = std::static_pointer_cast<CudaDevice>(shared_from_this());
  return std::shared_ptr<DeviceGraph>(std::make_shared<CudaGraph>(std::move(self), executable));
}

}  // namespace autotune::cuda
