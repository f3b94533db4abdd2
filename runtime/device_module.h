// Device modules: modules with code for a device other than the CPU. A library imports the device modules whose code
// its kernels launch. The type key is the name of the kind of device ("cuda", "opencl"). A module loads its image into
// a device once, at the first use. Thread-safe.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/byte_stream.h"
#include "runtime/module.h"

namespace autotune {

// The signature of a function of an image.
struct DeviceFunction {
  std::vector<DLDataType> arg_types;  // addresses are {kDLOpaqueHandle, 64, 1}
  // Axes of the launch, "blockIdx.x", ..., "threadIdx.z". A call passes their extents in this order, after the tensors.
  std::vector<std::string> launch_axes;
};

struct DeviceCode {
  std::string format;  // format of the image (Device::LoadImage)
  std::map<std::string, DeviceFunction> functions;
  std::string image;
};

// Makes a module with the functions of `code`. A function takes one tensor per argument, all on one device, then the
// extents of its launch axes. It starts one launch on that device.
Module MakeDeviceModule(std::string type_key, DeviceCode code);

// Restores a device module from the bytes that its Save wrote: the format, the function map and the image.
Result<Module> LoadDeviceModule(std::string type_key, ByteReader& in);

// Binds a kernel that consists of launches to `device`. The functions come from the modules in `modules` that are for
// this kind of device. The kernel keeps `artifact`, which owns `metadata`, alive. Errors name the function that is
// missing or does not load.
Result<std::shared_ptr<BoundKernel>> BindLaunches(std::shared_ptr<const Artifact> artifact,
                                                  const KernelMetadata& metadata, const std::vector<Module>& modules,
                                                  const DevicePtr& device);

}  // namespace autotune
