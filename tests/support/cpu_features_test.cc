#include "support/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace autotune {
namespace {

const std::vector<std::string> kHaswell = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "popcnt", "sse4.2"};

std::string ErrorOf(const std::vector<std::string>& needed) {
  Status status = CheckCpuFeatures(needed, kHaswell);
  return status.ok() ? "" : status.error().Text();
}

TEST(CpuFeatures, WhatIsPresentIsNoError) {
  EXPECT_EQ(ErrorOf({}), "");
  EXPECT_EQ(ErrorOf({"avx2", "fma"}), "");
  EXPECT_EQ(ErrorOf(kHaswell), "");
}

TEST(CpuFeatures, WhatIsMissingIsListed) {
  EXPECT_EQ(ErrorOf({"avx2", "gfni"}), "needs gfni, which this CPU lacks");
  EXPECT_EQ(ErrorOf({"amx-tile", "avx2"}), "needs amx-tile, which this CPU lacks or Linux refuses to this process");
  EXPECT_EQ(ErrorOf({"avx512f", "avx512vl", "fma"}), "needs AVX-512 (avx512f, avx512vl), which this CPU lacks");
  EXPECT_EQ(ErrorOf({"avx512f", "gfni", "sse4a"}), "needs AVX-512 (avx512f) and gfni, sse4a, which this CPU lacks");
  EXPECT_NE(ErrorOf({"of-a-later-release"}), "") << "an unknown feature must be refused";
}

TEST(CpuFeatures, KnownOnesAreSortedAndHoldTheHosts) {
  for (const char* architecture : {"x86_64", "aarch64", "riscv64"}) {
    std::vector<std::string> known = KnownCpuFeatures(architecture);
    EXPECT_TRUE(std::is_sorted(known.begin(), known.end())) << architecture;
    EXPECT_EQ(std::adjacent_find(known.begin(), known.end()), known.end()) << architecture;
  }
  const std::vector<std::string>& host = HostCpuFeatures();
#if defined(__x86_64__)
  std::vector<std::string> known = KnownCpuFeatures("x86_64");
  EXPECT_TRUE(std::includes(known.begin(), known.end(), host.begin(), host.end()));
#endif
  EXPECT_TRUE(CheckCpuFeatures(host).ok());
}

}  // namespace
}  // namespace autotune
