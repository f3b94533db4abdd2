// Device: a processor and its memory, as tensors, executors and modules see it. All devices keep this contract:
// - Addresses belong to the device. The host may add byte offsets within one allocation. It reads and writes through an
//   address only if the device is the host's own processor (`IsHost`).
// - Commands (copies, launches, Zero) run in the order in which they were given. `CopyIn` returns once the host may
//   reuse its memory, `CopyOut` once the data has arrived. The others may return before the command has run.
// - A command that was accepted may fail later. That error is final, as with GPU drivers: from then on every command of
//   the device returns it. `LastError` returns it, too, without a command. Whether a refusal (no memory, a bad image or
//   launch) is final depends on the device.
// Calls are thread-safe. Kernels of one device run one at a time, so executors that run concurrently need separate
// devices.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device_state.h"
#include "runtime/packed_func.h"
#include "runtime/tensor.h"
#include "support/result.h"

namespace autotune {

// Limits of a device. Sizes are in bytes.
struct DeviceLimits {
  int64_t memory_bytes = 0;
  int64_t shared_bytes = 0;       // memory of a block of threads; 0: the device has no such memory
  int64_t threads_per_block = 1;  // threads of one block
  int64_t units = 1;              // compute units, which run blocks side by side
  int64_t l2_bytes = 0;           // the cache that all units share; 0: unknown
  std::string architecture;       // "sm_90", as code generators name it; empty where code does not depend on it
};

// The shape of one launch: blocks, threads of a block, and the shared memory of a block that the code does not declare
// itself.
struct LaunchGeometry {
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;
};

// Code that a device has loaded. It keeps the device alive. Immutable, thread-safe.
class DeviceImage {
 public:
  virtual ~DeviceImage() = default;
  // Returns the handle of a function of the image, for Device::Launch. The handle is valid as long as the image. An
  // error names the missing function.
  virtual Result<const void*> Entry(std::string_view name) const = 0;
};

// A recorded sequence of commands that the device runs as one command. It keeps its device alive. The memory and the
// images that the commands use must outlive it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Gives the commands to the device, with the arguments that they were recorded with.
  virtual Status Launch() = 0;
};

class Device : public Object, public std::enable_shared_from_this<Device> {
 public:
  std::string_view TypeKey() const override { return "device"; }
  virtual DLDevice dl() const = 0;
  bool IsHost() const { return dl().device_type == kDLCPU; }
  // Returns a text by which all processes of this host know the device, such as its UUID. Empty for the host's own
  // processor.
  virtual std::string Identity() const;
  virtual DeviceLimits limits() const = 0;

  // Returns uninitialised memory, aligned to at least 64 bytes. The pointer is not null even if `bytes` is 0. The
  // memory is freed with the last reference, after the commands given before have run. It keeps the device alive.
  virtual Result<std::shared_ptr<void>> Allocate(int64_t bytes) = 0;
  virtual Status Zero(void* to, int64_t bytes) = 0;
  virtual Status CopyIn(void* to, const void* host, int64_t bytes) = 0;
  virtual Status CopyOut(void* host, const void* from, int64_t bytes) = 0;
  virtual Status CopyWithin(void* to, const void* from, int64_t bytes) = 0;  // no overlap

  // `format` names the kind of `bytes`: "ptx", "cubin", "cl". An error names the format if the device does not take it.
  virtual Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view format, std::string_view bytes) = 0;
  // Starts a function of an image of this device. `args` are addresses of this device.
  virtual Status Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) = 0;

  // Records the launches, Zero and CopyWithin commands that `record` gives; they do not run meanwhile. All other
  // commands inside `record` are errors. Commands of other threads wait. Returns null, without calling `record`, if
  // this device has no graphs.
  virtual Result<std::shared_ptr<DeviceGraph>> Capture(const std::function<Status()>&) {
    return std::shared_ptr<DeviceGraph>();
  }

  // Returns the seconds in which the device runs the commands that `give` gives, from the begin of the first one to the
  // end of the last one. A device without a clock of its own waits until it is idle, and tells the time of the host's
  // clock until it is idle again.
  virtual Result<double> Time(const std::function<Status()>& give);

  // A time of the device's reference kernel, whose work is fixed. It shows the clock frequency.
  struct Reading {
    double seconds = 0;  // 0: the device has no reference kernel
    bool steady = true;  // it agrees with the reading before
  };
  // Repeats the reference kernel until two successive readings agree (AreEqualReadings), for at most
  // kMostSettleSeconds. An idle GPU lowers its clock to a fraction, and takes milliseconds of work to raise it.
  virtual Result<Reading> Settle() { return Reading(); }
  static constexpr double kMostSettleSeconds = 2;  // [chosen]
  // Returns what the driver says about the clocks now.
  virtual DeviceState State() { return {}; }

  // Waits until all commands have run.
  virtual Status Synchronize() = 0;
  virtual Status LastError() const = 0;
  // Returns true if the last error means that the device itself has failed, not a kernel.
  virtual bool IsLost() const { return false; }
};

// Returns true if two readings differ by at most 1 %.
bool AreEqualReadings(double a, double b);

// Returns the name of a DLPack device type: "cpu", "cuda", "opencl", ...; "type 99" for an unknown type 99.
std::string DeviceTypeName(int type);
// Returns the DLPack device type of a name. An error lists the known names.
Result<int> DeviceTypeFromName(std::string_view name);
// Returns a text such as "cuda(1)".
std::string DeviceText(DLDevice device);

// A device of this machine: its kind and, within the kind, its number, its UUID or its name.
struct DeviceChoice {
  DLDeviceType type = kDLCPU;
  std::string which;  // empty: the first one; a beginning of a UUID or a name suffices if it is the only one with it
};
// Parses "opencl", "opencl:1", "cuda:GPU-8a6b1c0f" or "opencl:Intel(R) Arc".
Result<DeviceChoice> DeviceChoiceFromText(std::string_view text);
std::string DeviceText(const DeviceChoice& choice);  // the reverse
// Chooses a device of a known kind by "1", "GPU-8a6b1c0f", or "cuda:1".
Result<DeviceChoice> DeviceChoiceOf(int type, std::string_view which);

// A device in the list of its kind. Its number is its place in the list.
struct DeviceEntry {
  std::string name;
  std::string uuid;  // empty: unknown
};
// Returns the number of the device that `which` chooses from the list of the devices of `kind`. An error lists them.
Result<int> FindDevice(const std::string& kind, const std::vector<DeviceEntry>& devices, const std::string& which);

// Opens a device by the registry's function "device_api.NAME"(device id), which returns a Device. Returns an error if
// this runtime has no such function, or if the function fails. For the CPU, each call makes a device with its own
// threads. For other kinds, calls with equal numbers return the same object as long as it is in use and has not failed,
// since the order of commands is kept only within one object.
Result<DevicePtr> OpenDevice(DLDevice device);
// The same for a choice. A UUID or a name is looked up by the registry's function "device_number.NAME"(text), which
// returns the number.
Result<DevicePtr> OpenChosenDevice(const DeviceChoice& choice);

// Copies between any two devices. If neither device is the host, the data passes through the host's memory.
Status CopyBytes(Device& to_device, void* to, Device& from_device, const void* from, int64_t bytes);

// Copies the data between tensors of equal type and shape, on any devices.
Status CopyTensor(const Tensor& from, const Tensor& to);
// Returns the tensor itself if it is in the host's memory, else a copy in the host's memory.
Result<Tensor> ToHost(const Tensor& tensor);
// Returns the tensor itself if it is in the memory of `device`, else a copy there.
Result<Tensor> ToDevice(const Tensor& tensor, const DevicePtr& device);

}  // namespace autotune
