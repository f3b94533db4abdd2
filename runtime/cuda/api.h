// The functions of NVIDIA's driver that the runtime calls. The library libcuda.so.1, or the library that the
// environment variable AUTOTUNE_LIBCUDA names, is loaded at the first use, so programs run on machines without it. The
// declarations are written here, since the driver comes without headers. Thread-safe. Internal to runtime/cuda.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/result.h"

namespace autotune::cuda {

using Code = int;          // CUresult
using Ordinal = int;       // CUdevice
using Address = uint64_t;  // CUdeviceptr
using Context = void*;     // CUcontext
using Stream = void*;      // CUstream
using Event = void*;       // CUevent
using Image = void*;       // CUmodule
using Function = void*;    // CUfunction
using Graph = void*;       // CUgraph
using Executable = void*;  // CUgraphExec
using Pool = void*;        // CUmemoryPool
struct Uuid {              // CUuuid
  unsigned char bytes[16];
};
static_assert(sizeof(void*) == sizeof(Address));

// The members of Api. Each has the name of the driver's symbol. A suffix such as _v2 marks the 64-bit version, to which
// the driver's header maps the plain name. A driver without one of the NEEDED functions is refused. OPTIONAL functions
// that a driver lacks are null: memory pools came with CUDA 11.2, this interface of graphs and the UUIDs of parts of a
// GPU (cuDeviceGetUuid_v2) with CUDA 11.4.
#define AUTOTUNE_CUDA_FUNCTIONS(NEEDED, OPTIONAL)                                                                   \
  NEEDED(cuGetErrorName, (Code code, const char** name))                                                            \
  NEEDED(cuInit, (unsigned flags))                                                                                  \
  NEEDED(cuDriverGetVersion, (int* version))                                                                        \
  NEEDED(cuDeviceGetCount, (int* count))                                                                            \
  NEEDED(cuDeviceGet, (Ordinal * device, int number))                                                               \
  NEEDED(cuDeviceGetName, (char* name, int bytes, Ordinal device))                                                  \
  NEEDED(cuDeviceGetUuid, (Uuid * uuid, Ordinal device))                                                            \
  NEEDED(cuDeviceTotalMem_v2, (size_t * bytes, Ordinal device))                                                     \
  NEEDED(cuDeviceGetAttribute, (int* value, int attribute, Ordinal device))                                         \
  NEEDED(cuDevicePrimaryCtxRetain, (Context * context, Ordinal device))                                             \
  NEEDED(cuDevicePrimaryCtxRelease_v2, (Ordinal device))                                                            \
  NEEDED(cuCtxPushCurrent_v2, (Context context))                                                                    \
  NEEDED(cuCtxPopCurrent_v2, (Context * context))                                                                   \
  NEEDED(cuStreamCreate, (Stream * stream, unsigned flags))                                                         \
  NEEDED(cuStreamDestroy_v2, (Stream stream))                                                                       \
  NEEDED(cuStreamSynchronize, (Stream stream))                                                                      \
  NEEDED(cuEventCreate, (Event * event, unsigned flags))                                                            \
  NEEDED(cuEventDestroy_v2, (Event event))                                                                          \
  NEEDED(cuEventRecord, (Event event, Stream stream))                                                               \
  NEEDED(cuEventSynchronize, (Event event))                                                                         \
  NEEDED(cuEventElapsedTime, (float* milliseconds, Event begin, Event end))                                         \
  NEEDED(cuMemAlloc_v2, (Address * address, size_t bytes))                                                          \
  NEEDED(cuMemFree_v2, (Address address))                                                                           \
  NEEDED(cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t bytes, Stream stream))                         \
  NEEDED(cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t bytes, Stream stream))                               \
  NEEDED(cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t bytes, Stream stream))                             \
  NEEDED(cuMemsetD8Async, (Address to, unsigned char value, size_t bytes, Stream stream))                           \
  NEEDED(cuModuleLoadDataEx, (Image * image, const void* bytes, unsigned count, int* options, void** values))       \
  NEEDED(cuModuleUnload, (Image image))                                                                             \
  NEEDED(cuModuleGetFunction, (Function * function, Image image, const char* name))                                 \
  NEEDED(cuFuncSetAttribute, (Function function, int attribute, int value))                                         \
  NEEDED(cuLaunchKernel,                                                                                            \
         (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
          unsigned block_z, unsigned shared_bytes, Stream stream, void** args, void** extra))                       \
  OPTIONAL(cuDeviceGetUuid_v2, (Uuid * uuid, Ordinal device))                                                       \
  OPTIONAL(cuMemAllocAsync, (Address * address, size_t bytes, Stream stream))                                       \
  OPTIONAL(cuMemFreeAsync, (Address address, Stream stream))                                                        \
  OPTIONAL(cuDeviceGetDefaultMemPool, (Pool * pool, Ordinal device))                                                \
  OPTIONAL(cuMemPoolSetAttribute, (Pool pool, int attribute, void* value))                                          \
  OPTIONAL(cuStreamBeginCapture_v2, (Stream stream, int mode))                                                      \
  OPTIONAL(cuStreamEndCapture, (Stream stream, Graph * graph))                                                      \
  OPTIONAL(cuGraphInstantiateWithFlags, (Executable * executable, Graph graph, unsigned long long flags))           \
  OPTIONAL(cuGraphUpload, (Executable executable, Stream stream))                                                   \
  OPTIONAL(cuGraphLaunch, (Executable executable, Stream stream))                                                   \
  OPTIONAL(cuGraphExecDestroy, (Executable executable))                                                             \
  OPTIONAL(cuGraphDestroy, (Graph graph))

struct Api {
#define AUTOTUNE_CUDA_MEMBER(name, parameters) Code(*name) parameters = nullptr;
  AUTOTUNE_CUDA_FUNCTIONS(AUTOTUNE_CUDA_MEMBER, AUTOTUNE_CUDA_MEMBER)
#undef AUTOTUNE_CUDA_MEMBER

  bool has_graphs() const {
    return cuStreamBeginCapture_v2 && cuStreamEndCapture && cuGraphInstantiateWithFlags && cuGraphLaunch &&
           cuGraphExecDestroy && cuGraphDestroy;
  }
};

// Codes (CUresult) that need special treatment.
inline constexpr Code kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kStubLibrary = 34, kDeviceUnavailable = 46,
                      kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200, kNoBinaryForGpu = 209,
                      kEccUncorrectable = 214, kInvalidPtx = 218, kNvlinkUncorrectable = 220,
                      kJitCompilerNotFound = 221, kUnsupportedPtxVersion = 222, kJitCompilationDisabled = 223,
                      kInvalidSource = 300, kInvalidHandle = 400, kNotFound = 500, kLaunchOutOfResources = 701,
                      kNotSupported = 801, kSystemNotReady = 802, kSystemDriverMismatch = 803, kFirstCaptureError = 900,
                      kLastCaptureError = 908, kExternalDevice = 911;

// Attributes of a device (CUdevice_attribute).
inline constexpr int kMaxThreadsPerBlock = 1, kMultiprocessors = 16, kL2Bytes = 38, kCapabilityMajor = 75,
                     kCapabilityMinor = 76, kSharedPerBlockOptIn = 97, kMemoryPoolsSupported = 115;
// Attribute of a memory pool (CUmemPool_attribute), a uint64_t: the bytes of freed memory that the pool keeps.
inline constexpr int kPoolReleaseThreshold = 4;
// Attribute of a function (CUfunction_attribute): the most dynamic shared memory that a launch may request.
inline constexpr int kMaxDynamicSharedBytes = 8;
// Options of cuModuleLoadDataEx (CUjit_option): the buffer for error messages, and its size.
inline constexpr int kErrorLogBuffer = 5, kErrorLogBytes = 6;
// A stream that does not wait for the legacy default stream (CU_STREAM_NON_BLOCKING).
inline constexpr unsigned kNonBlocking = 1;
// A thread that waits for the event sleeps (CU_EVENT_BLOCKING_SYNC).
inline constexpr unsigned kBlockingSync = 1;
// A capture does not record calls of other threads, and does not forbid them (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).
inline constexpr int kThreadLocal = 1;

// Loads the driver. An error says that there is no driver, or which function it lacks.
Result<const Api*> LoadDriver();

// Returns a text such as "CUDA_ERROR_ILLEGAL_ADDRESS (700)".
std::string ErrorName(const Api& api, Code code);

}  // namespace autotune::cuda
