// Reads and writes tensors as NumPy's .npy files: little-endian, C order, versions 1 to 3. No arrays of objects.
// archives/npz.h reads .npz files. Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "runtime/tensor.h"

namespace autotune {

// Types: bool, i8..i64, u8..u64, f16, f32, f64. Errors name what is wrong and how to save the array instead.
Result<Tensor> ParseNpy(std::string_view bytes);
Result<Tensor> ReadNpy(const std::string& path);

Result<std::string> NpyBytes(const Tensor& tensor);  // returns an error for bf16, which NumPy does not have
Status WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace autotune
