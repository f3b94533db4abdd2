// The compiled implementation of every intrinsic computes the same bits as its interpreted description.
#include "schedule/intrinsic.h"

#include "tests/codegen/kernel.h"
#include "tests/schedule/intrinsic.h"

namespace autotune {
namespace {

// Returns the name and index of the first element that differs, for small integers, or an error message. Returns "" if
// all elements are equal.
std::string Mismatch(const PrimFunc& description, const PrimFunc& implementation) {
  PrimFunc want = zoo::Standalone(description), got = zoo::Standalone(implementation);
  auto built = Build(got);
  if (!built.ok()) return built.error().Text();
  std::vector<InterpArray> expected = SmallIntegers(want, 3), actual = expected;
  Status interpreted = Interpret(want, expected), ran = Run(*built, got, actual);
  if (!interpreted.ok() || !ran.ok()) return (interpreted.ok() ? ran : interpreted).error().Text();
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < expected[i].data.size(); ++k) {
      if (expected[i].data[k] != actual[i].data[k]) return want.params[i].buffer->name.str() + std::to_string(k);
    }
  }
  return "";
}

TEST(CompiledIntrinsics, DoWhatDescriptionsSay) {
  for (const Intrinsic& intrinsic : Intrinsics()) {
    EXPECT_EQ(Mismatch(intrinsic.description, intrinsic.implementation), "") << intrinsic.name;
  }
  EXPECT_NE(Mismatch(FindIntrinsic("gemm_f32_4x8x4")->description, FindIntrinsic("axpy_f32x8")->implementation), "");
}

}  // namespace
}  // namespace autotune
