// Helpers for the files that call XGBoost: its errors as a Status, its matrices, and predictions.
#pragma once
#include <xgboost/c_api.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "costmodel/features.h"
#include "support/check.h"
#include "support/result.h"

namespace autotune::xgboost {

constexpr int kBins = 64;  // bins per feature; most features are logarithms with a few dozen values

inline Status Xgb(int code) {
  if (code != 0) return Err("XGBoost: ", XGBGetLastError());
  return {};
}

// XGBoost takes seeds below 2^63.
inline std::string SeedText(uint64_t seed) { return std::to_string(seed & INT64_MAX); }

// Owns a DMatrix. Not thread-safe.
struct Matrix {
  DMatrixHandle handle = nullptr;
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  ~Matrix() {
    if (handle) XGDMatrixFree(handle);
  }
  Status Fill(const std::vector<const Features*>& rows) {
    std::vector<float> data;
    data.reserve(rows.size() * NumFeatures());
    for (const Features* row : rows) data.insert(data.end(), row->begin(), row->end());
    return Xgb(XGDMatrixCreateFromMat(data.data(), rows.size(), NumFeatures(), std::numeric_limits<float>::quiet_NaN(),
                                      &handle));
  }
};

// Returns the booster's predictions, in the order of the rows. XGBoost writes them to a buffer that the booster owns,
// so calls on one booster must not overlap.
inline std::vector<float> Predict(BoosterHandle booster, const std::vector<const Features*>& rows) {
  Matrix matrix;
  matrix.Fill(rows).value();
  bst_ulong length = 0;
  const float* values = nullptr;
  Xgb(XGBoosterPredict(booster, matrix.handle, 0, 0, 0, &length, &values)).value();
  CHECK(length == rows.size());
  return {values, values + length};
}

}  // namespace autotune::xgboost
