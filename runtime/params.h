// Parameters: named tensors in one blob, the file parameters/<model>.params of a package. Stateless, thread-safe.
// Not compressed.
//
// Layout, little-endian, no padding but where said:
//   char[8] magic "ATPARAMS"; u32 version 1; u32 count; u64 bytes of this header (all before the first data)
//   per tensor: u32 name length, name; u32 type length, type ("f32"); u32 rank, i64 extents[rank];
//               u64 offset of the data from the blob's start, a multiple of 64; u64 bytes of the data
//   data, in the order of the tensors, zero bytes between
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/tensor.h"

namespace autotune {

using Params = std::map<std::string, Tensor, std::less<>>;

std::string ParamsBytes(const Params& params);

// Each tensor gets memory of its own, so that it can be freed alone.
Result<Params> ParseParams(std::string_view blob);
// The tensors are views of the blob, which must be aligned to 64 bytes and is kept alive by `owner`.
Result<Params> ViewParams(std::string_view blob, std::shared_ptr<void> owner);
// Views of the mapped file: pages are read when first used, and shared between processes.
Result<Params> LoadParams(const std::string& path);
Status SaveParams(const std::string& path, const Params& params);

}  // namespace autotune
