// Programs given as text, for tests.
#pragma once
#include <gtest/gtest.h>

#include <string_view>

#include "ir/text.h"

namespace autotune::test {

// A text that is no program fails the test, and gives an empty one.
inline PrimFunc Parse(std::string_view text) {
  auto f = ParsePrimFunc(text);
  EXPECT_TRUE(f.ok()) << f.error().Text() << "\n" << text;
  return f.ok() ? *f : PrimFunc{};
}

}  // namespace autotune::test
