#include "runtime/opencl/api.h"

#include <dlfcn.h>

namespace autotune::opencl {
namespace {

constexpr const char* kLibrary = "libOpenCL.so.1";

Result<Api> Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never unloaded: drivers keep threads
  if (!library)
    return Err("this machine has no OpenCL: ", kLibrary, " is missing; it comes with the driver of the GPU");
  Api api;
  std::string missing;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  };
  find(api.GetPlatformIDs, "clGetPlatformIDs");
  find(api.GetPlatformInfo, "clGetPlatformInfo");
  find(api.GetDeviceIDs, "clGetDeviceIDs");
  find(api.GetDeviceInfo, "clGetDeviceInfo");
  find(api.CreateContext, "clCreateContext");
  find(api.ReleaseContext, "clReleaseContext");
  find(api.CreateCommandQueueWithProperties, "clCreateCommandQueueWithProperties");
  find(api.ReleaseCommandQueue, "clReleaseCommandQueue");
  find(api.SVMAlloc, "clSVMAlloc");
  find(api.EnqueueSVMFree, "clEnqueueSVMFree");
  find(api.EnqueueSVMMemcpy, "clEnqueueSVMMemcpy");
  find(api.EnqueueSVMMemFill, "clEnqueueSVMMemFill");
  find(api.Finish, "clFinish");
  find(api.CreateProgramWithSource, "clCreateProgramWithSource");
  find(api.BuildProgram, "clBuildProgram");
  find(api.GetProgramBuildInfo, "clGetProgramBuildInfo");
  find(api.ReleaseProgram, "clReleaseProgram");
  find(api.CreateKernel, "clCreateKernel");
  find(api.ReleaseKernel, "clReleaseKernel");
  find(api.SetKernelArg, "clSetKernelArg");
  find(api.SetKernelArgSVMPointer, "clSetKernelArgSVMPointer");
  find(api.EnqueueNDRangeKernel, "clEnqueueNDRangeKernel");
  if (!missing.empty()) return Err(kLibrary, " has no ", missing, ": it is older than OpenCL 2.0");
  return api;
}

struct CodeName {
  cl_int code;
  const char* name;
};
// The errors that a machine or a kernel may cause. Other errors are bugs of this program; for them the number suffices.
constexpr CodeName kCodes[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
    {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE"},
    {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
    {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE"},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
};

}  // namespace

Result<const Api*> LoadApi() {
  static const Result<Api> api = Load();
  if (!api.ok()) return api.error();
  return &api.value();
}

bool IsLoss(cl_int code) { return code == CL_DEVICE_NOT_AVAILABLE || code == CL_DEVICE_NOT_FOUND; }

std::string ErrorName(cl_int code) {
  for (const CodeName& row : kCodes) {
    if (row.code == code) return std::string(row.name) + " (" + std::to_string(code) + ")";
  }
  return "OpenCL error " + std::to_string(code);
}

}  // namespace autotune::opencl
