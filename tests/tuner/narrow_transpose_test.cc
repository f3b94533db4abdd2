// Transposes whose result has rows shorter than a vector. tests/tuner/lowered_test.cc interprets them.
#include <gtest/gtest.h>

#include "schedule/trace.h"
#include "tests/tuner/programs.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

bool HasVectors(const te::Shape& shape) {
  auto sketches = GenerateSketches(test::Transposed(shape, {0, 2, 3, 1}), test::TestTarget());
  EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
  return ToText((*sketches)[0].trace).find("vectorize(") != std::string::npos;
}

TEST(NarrowTranspose, HasVectorsAlongTheRowsThatItReads) {
  EXPECT_TRUE(HasVectors({1, 3, 64, 64}));
  EXPECT_TRUE(HasVectors({2, 3, 10, 33}));
  EXPECT_FALSE(HasVectors({1, 3, 64, 2})) << "these rows are shorter than a vector, too";
}

}  // namespace
}  // namespace autotune
