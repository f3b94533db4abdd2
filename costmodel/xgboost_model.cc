#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "costmodel/cost_model.h"
#include "support/json.h"

namespace autotune {
namespace {

Status Xgb(int code) {
  if (code != 0) return Err("XGBoost: ", XGBGetLastError());
  return {};
}

struct Matrix {
  DMatrixHandle handle = nullptr;
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

// Regression on the speed relative to the best of the same task, which makes tasks comparable; failures are 0.
class XgboostModel : public CostModel {
 public:
  explicit XgboostModel(const XgboostOptions& options) : options_(options) {}
  ~XgboostModel() override {
    if (booster_) XGBoosterFree(booster_);
  }

  void Add(std::vector<Sample> samples) override {
    for (Sample& sample : samples) {
      if (std::isfinite(sample.seconds)) {
        auto [it, fresh] = best_.try_emplace(sample.task, sample.seconds);
        if (!fresh) it->second = std::min(it->second, sample.seconds);
      }
      samples_.push_back(std::move(sample));
    }
  }

  Status Train() override {
    if (best_.empty() || samples_.size() < 8) return {};
    if (static_cast<double>(samples_.size()) < static_cast<double>(trained_on_) * (1 + options_.growth) + 1) return {};
    std::vector<const Features*> rows;
    std::vector<float> labels;
    for (const Sample& sample : samples_) {
      auto best = best_.find(sample.task);
      if (best == best_.end()) continue;  // nothing of that task has run: no scale
      rows.push_back(&sample.features);
      labels.push_back(std::isfinite(sample.seconds) ? static_cast<float>(best->second / sample.seconds) : 0.f);
    }
    Matrix matrix;
    TRY(matrix.Fill(rows));
    TRY(Xgb(XGDMatrixSetFloatInfo(matrix.handle, "label", labels.data(), labels.size())));
    BoosterHandle booster = nullptr;
    TRY(Xgb(XGBoosterCreate(&matrix.handle, 1, &booster)));
    if (booster_) XGBoosterFree(booster_);
    booster_ = booster;
    ready_ = false;
    const std::pair<const char*, std::string> parameters[] = {{"objective", "reg:squarederror"},
                                                              {"tree_method", "hist"},
                                                              {"max_depth", std::to_string(options_.max_depth)},
                                                              {"eta", std::to_string(options_.eta)},
                                                              {"nthread", std::to_string(options_.threads)},
                                                              {"seed", std::to_string(options_.seed)},
                                                              {"min_child_weight", "1"},
                                                              {"verbosity", "0"}};
    for (const auto& [key, value] : parameters) TRY(Xgb(XGBoosterSetParam(booster_, key, value.c_str())));
    for (int round = 0; round < options_.rounds; ++round)
      TRY(Xgb(XGBoosterUpdateOneIter(booster_, round, matrix.handle)));
    ready_ = true;
    trained_on_ = samples_.size();
    return {};
  }

  bool ready() const override { return ready_; }

  std::vector<float> Predict(std::span<const Features> candidates) const override {
    CHECK(ready_);
    if (candidates.empty()) return {};
    std::vector<const Features*> rows;
    for (const Features& f : candidates) rows.push_back(&f);
    Matrix matrix;
    matrix.Fill(rows).value();
    bst_ulong length = 0;
    const float* scores = nullptr;
    Xgb(XGBoosterPredict(booster_, matrix.handle, 0, 0, 0, &length, &scores)).value();
    CHECK(length == candidates.size());
    return {scores, scores + length};
  }

 private:
  XgboostOptions options_;
  BoosterHandle booster_ = nullptr;
  bool ready_ = false;
  size_t trained_on_ = 0;
  std::vector<Sample> samples_;
  std::unordered_map<uint64_t, double> best_;  // seconds, by task
};

}  // namespace

std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options) {
  return std::make_unique<XgboostModel>(options);
}

}  // namespace autotune
