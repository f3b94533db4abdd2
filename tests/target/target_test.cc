#include "target/target.h"

#include <gtest/gtest.h>

namespace autotune {
namespace {

TEST(Target, HostIsResolvedAndItsTextIsCanonical) {
  auto cpu = Target::Parse("cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ(cpu->Text().find("host"), std::string::npos);
  auto again = Target::Parse(cpu->Text());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->Text(), cpu->Text());
  EXPECT_EQ(again->vector_bits, cpu->vector_bits);
}

TEST(Target, AttributesFollowTheFeatures) {
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2")->vector_bits, 256);
  EXPECT_TRUE(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2")->has_fma);
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")->vector_bits, 128);
  EXPECT_FALSE(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")->has_fma);
  EXPECT_EQ(Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")->vector_registers, 32);
  EXPECT_EQ(Target::Parse("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")->vector_registers, 32);
}

TEST(Target, BadTextIsRefusedByName) {
  EXPECT_EQ(Target::Parse("cuda").error().message, "unknown target kind 'cuda'; known: cpu, llvm");
  EXPECT_EQ(Target::Parse("llvm -mcup=x").error().message,
            "unknown target option '-mcup'; known: -mtriple, -mcpu, -mattr, -num-cores");
  EXPECT_FALSE(Target::Parse("llvm -num-cores=0").ok());
  EXPECT_FALSE(Target::Parse("").ok());
  EXPECT_FALSE(Target::Parse("llvm -mtriple=sparc-linux -mcpu=x").ok());
}

}  // namespace
}  // namespace autotune
