// Tests which programs need 64-bit indices.
#include "codegen/index_width.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace autotune {
namespace {

int BitsOf(const std::string& body, const std::string& elements = "4096") {
  const std::string text = "func f(x: f32[" + elements + "] input, n: i32[4] input, out: f32[" + elements +
                           "] output) {\n" + "for b in 1024 blockIdx.x { for t in 1024 threadIdx.x {\n" + body +
                           "} } }";
  Result<PrimFunc> f = ParsePrimFunc(text);
  EXPECT_TRUE(f.ok()) << f.error().Text();
  return f.ok() ? IndexBitsOf(f->body) : 0;
}

TEST(IndexWidth, FollowsFromTheLargestIndex) {
  EXPECT_EQ(BitsOf("out[b * 1024 + t] = x[t]", "1048576"), 32);
  EXPECT_EQ(BitsOf("out[b * 2000000 + t] = x[t]", "4000000000"), 32) << "1023 * 2000000 < 2^31";
  EXPECT_EQ(BitsOf("out[b * 3000000 + t] = x[t]", "4000000000"), 64);
  EXPECT_EQ(BitsOf("for k in 1048576 { out[k * 4096] = x[t] }", "5000000000"), 64);
  EXPECT_EQ(BitsOf("out[t] = x[2147483648]", "4000000000"), 64);
  EXPECT_EQ(BitsOf("out[ramp(t, 4000000, 4)] = broadcast(1.0, 4)", "40000000"), 32);
}

// Every term of a sum must fit, since code may add the terms in any order.
TEST(IndexWidth, DoesNotRelyOnTermsThatCancel) {
  EXPECT_EQ(BitsOf("out[b * 3000000 - b * 2999999] = x[t]"), 64);
  EXPECT_EQ(BitsOf("out[(b * 3000000) % 4096] = x[t]"), 64);
  EXPECT_EQ(BitsOf("out[(b * 3000) % 4096] = x[t]"), 32);
  EXPECT_EQ(BitsOf("out[t] = select(b * 3000000 < 5, x[t], 0.0)"), 64) << "indices in conditions count, too";
}

TEST(IndexWidth, WhatIsReadFromMemoryMayBeAnything) {
  EXPECT_EQ(BitsOf("out[t] = x[index(n[0])]"), 64);
  EXPECT_EQ(BitsOf("let i = t + 1 out[i] = x[i]"), 32);
  EXPECT_EQ(BitsOf("let i = t * 5000000 out[t] = x[i]"), 64);
}

}  // namespace
}  // namespace autotune
