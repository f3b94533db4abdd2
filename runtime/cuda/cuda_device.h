// CudaDevice: the implementation of runtime/cuda/device.h. Its parts are in device.cc (memory, images, launches and
// graphs) and timing.cc (events, clocks). Internal to runtime/cuda.
#pragma once
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "runtime/cuda/api.h"
#include "runtime/device.h"

namespace autotune::cuda {

// Returns an attribute of a device (cuDeviceGetAttribute).
int AttributeOf(const Api& api, Ordinal device, int attribute);
DeviceLimits LimitsOf(const Api& api, Ordinal device);
// Returns a text such as "GPU-8a6b1c0f-…", as nvidia-smi prints it; empty if the driver tells no UUID.
std::string UuidOf(const Api& api, Ordinal device);
// Returns the newest version of CUDA that the driver supports, such as "12.4".
std::string DriverVersion(const Api& api);

// A function of an image. Device::Launch gets a pointer to it as `entry`.
struct CudaFunction {
  Function handle = nullptr;
  mutable int64_t shared_bytes = 0;  // most dynamic shared memory of launches so far; guarded by the device's lock
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Api& api, Ordinal device, int id)
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
  Result<double> Time(const std::function<Status()>& give) override;
  Result<Reading> Settle() override;
  DeviceState State() override;
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
      Context context = nullptr;
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
  Status MakeEvents();
  Status LoadReference();
  void FreeReference();
  void KeepFreedMemory();
  // Converts a code to a Status. Keeps the first final error, which all later calls return. The caller holds the lock.
  Status Check(Code code, const char* what);
  Status CheckNotCapturing(const char* what) const {
    if (capturing_) return Err(what, " cannot be part of a graph of ", DeviceText(dl()));
    return {};
  }
  void Free(Address address);
  Status Wait() { return Check(api_.cuStreamSynchronize(stream_), "a command"); }

  const Api& api_;
  const Ordinal device_;
  const int id_;
  const DeviceLimits limits_;
  // Guards the members below. Recursive: Capture holds it while its caller records.
  mutable std::recursive_mutex mutex_;
  // Held while an image is loaded, and by a capture alone. Taken after mutex_, or without it.
  std::shared_mutex loading_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  bool has_pool_ = false;
  bool capturing_ = false;
  std::vector<Address> freed_;             // memory to free after a capture, since a capture would record the call
  Event begin_ = nullptr, end_ = nullptr;  // of Time
  bool tried_reference_ = false;
  // The reference kernel of Settle, and the number that it reads and writes. The image would keep this device alive, so
  // the handles are the driver's.
  Image reference_image_ = nullptr;
  Function reference_ = nullptr;
  Address reference_data_ = 0;
  Status error_;
  bool lost_ = false;
};

}  // namespace autotune::cuda
