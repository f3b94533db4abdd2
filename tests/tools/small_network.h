// A network like examples/resnet20.onnx, but small, for tests of commands whose subject is not the network: it compiles
// in a tenth of the time.
#pragma once
#include <string>

namespace autotune::test {

inline constexpr int kSmallTasks = 7;  // the number of its tasks; two of its layers share one

// Writes small.onnx, and its data set small_data: an input `image` and the output `probabilities`, which a plain loop
// in doubles computes.
void WriteSmallNetwork(const std::string& folder);

}  // namespace autotune::test
