// Device modules: modules with code for a device other than the CPU. The library whose kernels launch the code imports
// them. The type key is the name of the kind of device ("cuda", "opencl"). A module loads its image into a device once,
// at the first use. Thread-safe.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/byte_stream.h"
#include "runtime/module.h"

namespace autotune {

// A function of an image as callers see it.
struct DeviceFunction {
  std::vector<DLDataType> arg_types;     // addresses are {kDLOpaqueHandle, 64, 1}
  std::vector<std::string> launch_axes;  // "blockIdx.x", ..., "threadIdx.z": whose extents a call passes last, in order
};

struct DeviceCode {
  std::string format;  // of the image (Device::LoadImage)
  std::map<std::string, DeviceFunction> functions;
  std::string image;
};

// Each function of `code` is a function of the module: it takes tensors of one device, one per argument, then the
// extents of its launch axes, and starts one launch there.
Module MakeDeviceModule(std::string type_key, DeviceCode code);

// Restores a device module from what its Save wrote: three strings' worth, format, function map, image.
Result<Module> LoadDeviceModule(std::string type_key, ByteReader& in);

// Binds a kernel that consists of launches. Their entries are functions of device modules for this kind of device among
// `modules`. `artifact` holds the metadata and stays alive. Errors name the entry that is missing or does not load.
Result<std::shared_ptr<BoundKernel>> BindLaunches(std::shared_ptr<const Artifact> artifact,
                                                  const KernelMetadata& metadata, const std::vector<Module>& modules,
                                                  const DevicePtr& device);

}  // namespace autotune
