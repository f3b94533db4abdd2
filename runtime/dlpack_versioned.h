// DLManagedTensorVersioned of DLPack 1.0, for the header of DLPack before 1.0 that Debian 12 has. Plain C structs.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>

#ifndef DLPACK_MAJOR_VERSION

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)

struct DLPackVersion {
  uint32_t major;  // another major version has another layout behind `deleter`
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

#endif
