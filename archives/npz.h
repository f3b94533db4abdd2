// Reads and writes NumPy's .npz files: zip archives with a member NAME.npy for each array (runtime/npy.h). Stateless.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor.h"

namespace autotune {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Returns the arrays in the order of the file. Errors name the file and the member.
Result<NamedTensors> ReadNpz(const std::string& path);

// Writes the arrays uncompressed, as numpy.savez does. An interrupted write leaves no partial file (ReplaceFile). Two
// arrays with one name, and types that NumPy lacks, are errors.
Status WriteNpz(const std::string& path, const NamedTensors& arrays);

}  // namespace autotune
