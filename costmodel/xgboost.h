// Helpers for the files that call XGBoost: its errors as Status, and rows of features as its matrix.
#pragma once
#include <xgboost/c_api.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "costmodel/features.h"
#include "support/result.h"

namespace autotune::xgboost {

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

}  // namespace autotune::xgboost
