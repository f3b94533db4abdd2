// The parts of a feature vector (costmodel/features.h) and their lengths. Internal to costmodel/.
#pragma once

namespace autotune::schema {

inline constexpr int kFunction = 8;
inline constexpr int kBlocks = 3;
inline constexpr int kArithmetic = 8;
inline constexpr int kShape = 14;
inline constexpr int kLevels = 4;  // registers and three caches
inline constexpr int kAccesses = 4;
inline constexpr int kPerAccess = 15;
inline constexpr int kIntensity = 6;
inline constexpr int kPerBlock = kArithmetic + kShape + kAccesses * kPerAccess + kIntensity;

}  // namespace autotune::schema
