// The functions of OpenCL that the runtime calls. The library libOpenCL.so.1 is loaded at the first use, so programs
// run on machines without it. Thread-safe. Internal to runtime/opencl.
#pragma once
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <string>

#include "support/result.h"

namespace autotune::opencl {

struct Api {
  decltype(&clGetPlatformIDs) GetPlatformIDs = nullptr;
  decltype(&clGetPlatformInfo) GetPlatformInfo = nullptr;
  decltype(&clGetDeviceIDs) GetDeviceIDs = nullptr;
  decltype(&clGetDeviceInfo) GetDeviceInfo = nullptr;
  decltype(&clCreateContext) CreateContext = nullptr;
  decltype(&clReleaseContext) ReleaseContext = nullptr;
  decltype(&clCreateCommandQueueWithProperties) CreateCommandQueueWithProperties = nullptr;
  decltype(&clReleaseCommandQueue) ReleaseCommandQueue = nullptr;
  decltype(&clSVMAlloc) SVMAlloc = nullptr;
  decltype(&clEnqueueSVMFree) EnqueueSVMFree = nullptr;
  decltype(&clEnqueueSVMMemcpy) EnqueueSVMMemcpy = nullptr;
  decltype(&clEnqueueSVMMemFill) EnqueueSVMMemFill = nullptr;
  decltype(&clFinish) Finish = nullptr;
  decltype(&clCreateProgramWithSource) CreateProgramWithSource = nullptr;
  decltype(&clBuildProgram) BuildProgram = nullptr;
  decltype(&clGetProgramBuildInfo) GetProgramBuildInfo = nullptr;
  decltype(&clReleaseProgram) ReleaseProgram = nullptr;
  decltype(&clCreateKernel) CreateKernel = nullptr;
  decltype(&clReleaseKernel) ReleaseKernel = nullptr;
  decltype(&clSetKernelArg) SetKernelArg = nullptr;
  decltype(&clSetKernelArgSVMPointer) SetKernelArgSVMPointer = nullptr;
  decltype(&clEnqueueNDRangeKernel) EnqueueNDRangeKernel = nullptr;
};

// Loads the library. An error says that there is no libOpenCL, or which function of OpenCL 2.0 it lacks.
Result<const Api*> LoadApi();

// Returns a text such as "CL_OUT_OF_RESOURCES (-5)".
std::string ErrorName(cl_int code);
// Returns true if the code means that the device itself has failed. After a fault of a kernel, drivers return other
// codes, such as CL_OUT_OF_RESOURCES.
bool IsLoss(cl_int code);

}  // namespace autotune::opencl
