// This header states how long each part of a feature vector is. costmodel/feature_names.cc names each feature and
// checks that the counts agree. A vector describes the kBlocks blocks of a function with the most work, and the
// kAccesses accesses of each block that touch the most lines; further blocks and accesses are left out. Internal to
// costmodel/.
#pragma once

namespace autotune::schema {

inline constexpr int kFunction = 8;
inline constexpr int kBlocks = 3;
inline constexpr int kArithmetic = 8;
inline constexpr int kShape = 14;
inline constexpr int kLevels = 4;  // of memory: registers and three caches
inline constexpr int kAccesses = 4;
inline constexpr int kPerAccess = 15;
inline constexpr int kIntensity = 6;
inline constexpr int kPerBlock = kArithmetic + kShape + kAccesses * kPerAccess + kIntensity;

}  // namespace autotune::schema
