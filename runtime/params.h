// Parameters: named tensors in one blob, the file parameters/<model>.params of a package, in the layout of
// `_save_params`, which TVM's runtime reads and writes. Stateless, thread-safe. Not compressed.
//
// Layout, little-endian, no padding:
//   u64 magic 0xF7E58D4F05049CB7, u64 0; vector of names; u64 number of tensors, which equals that of the names; then
//   each tensor: u64 magic 0xDD5E40F096B4A13F, u64 0; i32 device type (1: the CPU), i32 device id; i32 rank; element
//   type as DLPack's u8 code, u8 bits, u16 lanes; i64 per extent; i64 bytes of the data; the data, compact and
//   row-major.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "runtime/byte_stream.h"
#include "runtime/tensor.h"

namespace autotune {

using Params = std::map<std::string, Tensor, std::less<>>;

std::string ParamsBytes(const Params& params);
// Copies each tensor into separate memory, so that each can be freed alone. Returns an error for malformed, missing or
// trailing bytes. A damaged size cannot make it allocate more memory than the blob justifies.
Result<Params> ParseParams(std::string_view blob);
// Like ParseParams, but without copies: the tensors refer to `blob`. Such tensors may be unaligned: they can be copied
// or saved, but kernels cannot use them.
Result<Params> ViewParams(std::string_view blob);

Result<Params> LoadParams(const std::string& path);

// Writes the names and tensors of a set of parameters: a vector of names, then the number (u64) and the tensors in the
// layout at the top of this file. With `count_first` the number comes before the names, as in the factory of a graph
// executor of TVM.
void WriteNamedTensors(ByteWriter& out, const Params& params, bool count_first = false);
using TensorReader = Result<Tensor>(ByteReader&);
Result<Tensor> ReadTensor(ByteReader& in);
Result<Params> ReadNamedTensors(ByteReader& in, bool count_first = false, TensorReader* read = ReadTensor);

// Writes one tensor in the layout at the top of this file. `tensor` must be in CPU memory.
void WriteTensor(ByteWriter& out, const Tensor& tensor);

}  // namespace autotune
