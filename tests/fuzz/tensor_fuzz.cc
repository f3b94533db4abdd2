// Tensor files from users: .npy, and ONNX's .pb.
#include "frontend/onnx/tensor_pb.h"
#include "runtime/npy.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(tensor) {
  (void)ParseTensorPb(input, "fuzz");
  auto tensor = ParseNpy(input);
  if (!tensor.ok()) return;
  auto bytes = NpyBytes(*tensor);
  CHECK(bytes.ok()) << bytes.error().Text();
  auto again = ParseNpy(*bytes);
  CHECK(again.ok()) << again.error().Text();
  CHECK(again->bytes() == tensor->bytes());
}

}  // namespace autotune
