// For tests: parses programs.
#pragma once
#include <gtest/gtest.h>

#include <string_view>

#include "ir/text.h"

namespace autotune::test {

// Fails the test and returns an empty program if the text is not a program.
inline PrimFunc Parse(std::string_view text) {
  auto f = ParsePrimFunc(text);
  EXPECT_TRUE(f.ok()) << f.error().Text() << "\n" << text;
  return f.ok() ? *f : PrimFunc{};
}

}  // namespace autotune::test
