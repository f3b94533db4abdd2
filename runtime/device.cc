#include "runtime/device.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "runtime/registry.h"
#include "support/hint.h"
#include "support/utf8.h"

namespace autotune {
namespace {

struct DeviceName {
  int type;
  std::string_view name;
};
constexpr DeviceName kDeviceNames[] = {{kDLCPU, "cpu"},       {kDLCUDA, "cuda"},   {kDLOpenCL, "opencl"},
                                       {kDLVulkan, "vulkan"}, {kDLMetal, "metal"}, {kDLROCM, "rocm"},
                                       {kDLExtDev, "ext_dev"}};

}  // namespace

std::string DeviceTypeName(int type) {
  for (const DeviceName& row : kDeviceNames) {
    if (row.type == type) return std::string(row.name);
  }
  return "type " + std::to_string(type);
}

Result<int> DeviceTypeFromName(std::string_view name) {
  std::string known;
  for (const DeviceName& row : kDeviceNames) {
    if (row.name == name) return row.type;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Err("unknown kind of device '", name.substr(0, 32), "'; known are ", known);
}

std::string DeviceText(DLDevice device) {
  return DeviceTypeName(device.device_type) + "(" + std::to_string(device.device_id) + ")";
}

namespace {

// Returns the number that `text` is; nothing if it is none.
std::optional<int> PlaceOf(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::string EntryText(size_t number, const DeviceEntry& device) {
  return std::to_string(number) + " (" + device.name + (device.uuid.empty() ? "" : ", " + device.uuid) + ")";
}

}  // namespace

Result<DeviceChoice> DeviceChoiceFromText(std::string_view text) {
  const size_t colon = text.find(':');
  const int type = TRY(DeviceTypeFromName(text.substr(0, colon)));
  const std::string which(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (colon != std::string_view::npos && which.empty())
    return WithHint(Err("'", OneLine(std::string(text.substr(0, 48))), "' is no device"),
                    "write it as opencl or opencl:1");
  return DeviceChoice{static_cast<DLDeviceType>(type), which};
}

std::string DeviceText(const DeviceChoice& choice) {
  return DeviceTypeName(choice.type) + (choice.which.empty() ? "" : ":" + choice.which);
}

Result<DeviceChoice> DeviceChoiceOf(int type, std::string_view which) {
  const std::string kind = DeviceTypeName(type) + ":";
  if (which.empty()) return DeviceChoice{static_cast<DLDeviceType>(type), ""};
  return DeviceChoiceFromText(which.starts_with(kind) ? std::string(which) : kind + std::string(which));
}

Result<int> FindDevice(const std::string& kind, const std::vector<DeviceEntry>& devices, const std::string& which) {
  std::vector<int> equal, longer;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceEntry& device = devices[i];
    const int number = static_cast<int>(i);
    if (PlaceOf(which) == number) return number;
    if (which == device.uuid || which == device.name) equal.push_back(number);
    if (device.uuid.starts_with(which) || device.name.starts_with(which)) longer.push_back(number);
  }
  const std::vector<int>& found = equal.empty() ? longer : equal;
  if (found.size() == 1) return found[0];
  std::string list;
  for (size_t i = 0; i < devices.size(); ++i) list += (i > 0 ? ", " : "") + EntryText(i, devices[i]);
  return Err(found.empty() ? "there is no " : "there is more than one ", kind, " device '",
             OneLine(which.substr(0, 64)), "'; this machine has ", list);
}

bool AreEqualReadings(double a, double b) {
  constexpr double kAgreement = 0.01;
  return std::abs(a - b) <= kAgreement * std::min(a, b);
}

Result<double> Device::Time(const std::function<Status()>& give) {
  using Clock = std::chrono::steady_clock;
  TRY(Synchronize());
  const Clock::time_point begin = Clock::now();
  TRY(give());
  TRY(Synchronize());
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string Device::Identity() const { return IsHost() ? "" : DeviceText(dl()); }

Result<DevicePtr> OpenDevice(DLDevice device) {
  Result<PackedFunc> open = Registry::Global().Get("device_api." + DeviceTypeName(device.device_type));
  if (!open.ok()) return Err("this runtime has no device ", DeviceText(device));
  Value value = TRY_NOTE((*open)(device.device_id), "while opening " + DeviceText(device));
  const ObjectRef* object = value.If<ObjectRef>();
  DevicePtr opened = object ? std::dynamic_pointer_cast<Device>(*object) : nullptr;
  if (opened && opened->dl().device_type != device.device_type)
    return Err("device_api.", DeviceTypeName(device.device_type), " returned ", DeviceText(opened->dl()));
  if (!opened)
    return Err("device_api.", DeviceTypeName(device.device_type), " returned ", value.TypeName(), ", no device");
  return opened;
}

Result<DevicePtr> OpenChosenDevice(const DeviceChoice& choice) {
  DLDevice device{choice.type, PlaceOf(choice.which).value_or(0)};
  if (choice.which.empty() || PlaceOf(choice.which)) return OpenDevice(device);
  const std::string kind = DeviceTypeName(choice.type);
  Result<PackedFunc> find = Registry::Global().Get("device_number." + kind);
  if (!find.ok()) return Err("devices of kind ", kind, " are chosen by number, not by '", OneLine(choice.which), "'");
  const Value number = TRY((*find)(choice.which));
  const int64_t* found = number.If<int64_t>();
  if (!found) return Err("device_number.", kind, " returned ", number.TypeName(), ", no number");
  device.device_id = static_cast<int>(*found);
  return OpenDevice(device);
}

Status CopyBytes(Device& to_device, void* to, Device& from_device, const void* from, int64_t bytes) {
  if (bytes == 0) return {};
  if (&to_device == &from_device) return to_device.CopyWithin(to, from, bytes);
  if (from_device.IsHost()) return to_device.CopyIn(to, from, bytes);
  if (to_device.IsHost()) return from_device.CopyOut(to, from, bytes);
  std::shared_ptr<void> through = AllocateAligned(bytes);
  if (!through) return OutOfMemory("cannot allocate ", bytes, " bytes to copy between devices");
  TRY(from_device.CopyOut(through.get(), from, bytes));
  return to_device.CopyIn(to, through.get(), bytes);
}

Status CopyTensor(const Tensor& from, const Tensor& to) {
  if (!from.defined() || !to.defined()) return Err("a copy needs two tensors; one of them is null");
  if (!(from.dtype() == to.dtype()) || from.shape() != to.shape()) {
    return Err("cannot copy ", from.TypeText(), " into ", to.TypeText());
  }
  if (to.read_only()) return Err("cannot copy into a read-only tensor");
  const int64_t bytes = from.num_bytes();
  if (bytes == 0 || (from.data() == to.data() && from.device() == to.device())) return {};
  if (to.device()) {
    if (from.device()) return CopyBytes(*to.device(), to.data(), *from.device(), from.data(), bytes);
    return to.device()->CopyIn(to.data(), from.data(), bytes);
  }
  if (from.device()) return from.device()->CopyOut(to.data(), from.data(), bytes);
  std::memmove(to.data(), from.data(), bytes);
  return {};
}

Result<Tensor> ToHost(const Tensor& tensor) {
  if (!tensor.device()) return tensor;
  Tensor copy = TRY(Tensor::Empty(tensor.shape(), tensor.dtype()));
  TRY(CopyTensor(tensor, copy));
  return copy;
}

Result<Tensor> ToDevice(const Tensor& tensor, const DevicePtr& device) {
  if (device->IsHost()) return ToHost(tensor);
  if (tensor.device() == device.get()) return tensor;
  std::shared_ptr<void> memory = TRY(device->Allocate(tensor.num_bytes()));
  void* data = memory.get();
  Tensor copy = TRY(Tensor::OnDevice(device, data, tensor.shape(), tensor.dtype(), std::move(memory)));
  TRY(CopyTensor(tensor, copy));
  return copy;
}

}  // namespace autotune
