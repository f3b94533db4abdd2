#include <mutex>
#include <string>
#include <utility>

#include "costmodel/regression.h"
#include "costmodel/xgboost.h"
#include "support/check.h"

namespace autotune {
namespace {

using xgboost::kBins;
using xgboost::Matrix;
using xgboost::SeedText;
using xgboost::Xgb;

class XgboostRegression : public Regression {
 public:
  ~XgboostRegression() override {
    if (booster_) XGBoosterFree(booster_);
  }

  Status Fit(std::span<const Features* const> rows, std::span<const float> labels, const RegressionOptions& options) {
    CHECK(!rows.empty() && rows.size() == labels.size());
    Matrix matrix;
    TRY(matrix.Fill({rows.begin(), rows.end()}));
    TRY(Xgb(XGDMatrixSetFloatInfo(matrix.handle, "label", labels.data(), labels.size())));
    TRY(Xgb(XGBoosterCreate(&matrix.handle, 1, &booster_)));
    const std::pair<const char*, std::string> parameters[] = {{"objective", "reg:squarederror"},
                                                              {"tree_method", "hist"},
                                                              {"max_depth", std::to_string(options.max_depth)},
                                                              {"eta", std::to_string(options.eta)},
                                                              {"subsample", std::to_string(options.subsample)},
                                                              {"max_bin", std::to_string(kBins)},
                                                              {"nthread", std::to_string(options.threads)},
                                                              {"seed", SeedText(options.seed)},
                                                              {"verbosity", "0"}};
    for (const auto& [key, value] : parameters) TRY(Xgb(XGBoosterSetParam(booster_, key, value.c_str())));
    for (int round = 0; round < options.rounds; ++round)
      TRY(Xgb(XGBoosterUpdateOneIter(booster_, round, matrix.handle)));
    return {};
  }

  std::vector<float> Predict(std::span<const Features> rows) const override {
    if (rows.empty()) return {};
    std::vector<const Features*> pointers;
    for (const Features& row : rows) pointers.push_back(&row);
    std::lock_guard<std::mutex> lock(mutex_);
    return xgboost::Predict(booster_, pointers);
  }

 private:
  mutable std::mutex mutex_;
  BoosterHandle booster_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Regression>> FitRegression(std::span<const Features* const> rows, std::span<const float> labels,
                                                  const RegressionOptions& options) {
  auto regression = std::make_unique<XgboostRegression>();
  TRY(regression->Fit(rows, labels, options));
  return std::unique_ptr<Regression>(std::move(regression));
}

}  // namespace autotune
