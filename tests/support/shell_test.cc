#include "support/shell.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

TEST(ShellWord, OnlySpecialCharactersAreQuoted) {
  EXPECT_EQ(ShellWord("models/net-2.onnx"), "models/net-2.onnx");
  EXPECT_EQ(ShellWord("batch=1,3,224"), "batch=1,3,224");
  EXPECT_EQ(ShellWord("net (v2).onnx"), "'net (v2).onnx'");
  EXPECT_EQ(ShellWord("matmul:2,3;x"), "'matmul:2,3;x'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("$HOME"), "'$HOME'");
  EXPECT_EQ(ShellWord("~/m"), "'~/m'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace autotune
