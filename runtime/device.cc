#include "runtime/device.h"

#include <charconv>

#include <cstring>

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

Result<DLDevice> DeviceFromText(std::string_view text) {
  const size_t colon = text.find(':');
  const int type = TRY(DeviceTypeFromName(text.substr(0, colon)));
  int id = 0;
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (error != std::errc() || end != number.data() + number.size() || id < 0)
      return WithHint(Err("'", OneLine(std::string(text.substr(0, 48))), "' is no device"),
                      "write it as opencl or opencl:1");
  }
  return DLDevice{static_cast<DLDeviceType>(type), id};
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
