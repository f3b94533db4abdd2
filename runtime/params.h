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
// Copies each tensor into memory of its own, so that it can be freed alone. Errors: anything that ParamsBytes could not
// have written. Allocates no more than the blob holds.
Result<Params> ParseParams(std::string_view blob);
// Without copies: the tensors lie in `blob`, at any alignment, and are to be written elsewhere, not computed with.
Result<Params> ViewParams(std::string_view blob);

Result<Params> LoadParams(const std::string& path);

// The names and tensors of a set of parameters: vector of names, then u64 number and the tensors as above. The factory
// of a graph executor stores the number first (`count_first`), as TVM's does.
void WriteNamedTensors(ByteWriter& out, const Params& params, bool count_first = false);
using TensorReader = Result<Tensor>(ByteReader&);
Result<Tensor> ReadTensor(ByteReader& in);
Result<Params> ReadNamedTensors(ByteReader& in, bool count_first = false, TensorReader* read = ReadTensor);

// One tensor as above. `tensor` lies in CPU memory.
void WriteTensor(ByteWriter& out, const Tensor& tensor);

}  // namespace autotune
