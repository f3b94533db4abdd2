#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

#include "costmodel/cost_model.h"
#include "costmodel/xgboost.h"
#include "support/check.h"
#include "support/statistics.h"

namespace autotune {
namespace {

using xgboost::kBins;
using xgboost::Matrix;
using xgboost::SeedText;
using xgboost::Xgb;

constexpr size_t kFewest = 8;  // least number of samples, over all tasks, for a training; fewer would be memorised
// A sample has contrast if it failed or is slower than its task's best by more than this factor. Such samples tell bad
// candidates from good ones, since two measurements of one schedule differ by less.
constexpr double kContrast = 1.1;
// A task applies the share (c + kOthers) / (c + kTrust) of the correction, where c is the number of its own samples
// with contrast. The share is a quarter for c = 0, and 62 % for c = 16.
constexpr double kOthers = 4, kTrust = 16;
// The least weight of a sample. The weight is the sample's speed relative to its task's best, since errors matter most
// for candidates that compete for the first place.
constexpr double kLeastWeight = 0.1;
constexpr double kLeastChance = 1e-3;  // least chance of success; keeps its logarithm finite

struct TrainingSet {
  std::vector<const Features*> rows;
  std::vector<float> labels, weights;
};

// Boosted trees that are trained incrementally: each call of Boost adds rounds to the existing trees.
class Trees {
 public:
  Trees() = default;
  Trees(const Trees&) = delete;
  ~Trees() {
    if (handle_) XGBoosterFree(handle_);
  }
  bool empty() const { return !handle_; }

  // Adds `rounds` trees. If `again`, drops the existing trees first. `objective` is the name of an XGBoost objective,
  // `base` the prediction without trees.
  Status Boost(const TrainingSet& set, int rounds, bool again, const char* objective, double base,
               const XgboostOptions& options) {
    Matrix matrix;
    TRY(matrix.Fill(set.rows));
    TRY(Xgb(XGDMatrixSetFloatInfo(matrix.handle, "label", set.labels.data(), set.labels.size())));
    TRY(Xgb(XGDMatrixSetFloatInfo(matrix.handle, "weight", set.weights.data(), set.weights.size())));
    if (again || !handle_) TRY(Start(matrix, objective, base, options));
    for (int i = 0; i < rounds; ++i) TRY(Xgb(XGBoosterUpdateOneIter(handle_, round_++, matrix.handle)));
    return {};
  }

  std::vector<float> Predict(const std::vector<const Features*>& rows) const {
    CHECK(handle_);
    return xgboost::Predict(handle_, rows);
  }

 private:
  Status Start(const Matrix& matrix, const char* objective, double base, const XgboostOptions& options) {
    if (handle_) XGBoosterFree(handle_);
    handle_ = nullptr;
    round_ = 0;
    TRY(Xgb(XGBoosterCreate(&matrix.handle, 1, &handle_)));
    const std::pair<const char*, std::string> parameters[] = {{"objective", objective},
                                                              {"base_score", std::to_string(base)},
                                                              {"tree_method", "hist"},
                                                              {"max_depth", std::to_string(options.max_depth)},
                                                              {"max_bin", std::to_string(kBins)},
                                                              {"eta", std::to_string(options.eta)},
                                                              {"nthread", std::to_string(options.threads)},
                                                              {"seed", SeedText(options.seed)},
                                                              {"min_child_weight", "1"},
                                                              {"verbosity", "0"}};
    for (const auto& [key, value] : parameters) TRY(Xgb(XGBoosterSetParam(handle_, key, value.c_str())));
    return {};
  }

  BoosterHandle handle_ = nullptr;
  int round_ = 0;
};

// Two sets of trees:
// - The first one predicts the residual log(draft / measured), minus the median of the task. The median makes tasks
//   comparable: the draft score may be wrong by any factor that is the same for all candidates of a task.
// - The second one predicts the probability that a candidate fails. A failure has no time and so no residual; an
//   invented slow time would teach the first set that the fast neighbours of a failure are slow.
//
//   score = -log(draft) + share * residual + log(1 - probability of failure)
//
// `share` grows from 0.25 to 1 with the task's own samples (kTrust).
class XgboostModel : public CostModel {
 public:
  explicit XgboostModel(const XgboostOptions& options) : options_(options) {}

  void Add(std::vector<Sample> samples) override {
    for (Sample& sample : samples) {
      CHECK(sample.draft_seconds > 0 && sample.seconds > 0);
      if (!std::isfinite(sample.draft_seconds)) continue;
      if (std::isfinite(sample.seconds)) {
        auto [it, fresh] = best_.try_emplace(sample.task, sample.seconds);
        if (!fresh) it->second = std::min(it->second, sample.seconds);
      }
      samples_.push_back(std::move(sample));
    }
  }

  // Adds rounds in proportion to the share of new samples. New rounds train on all samples, since new samples change
  // the medians and bests of tasks; each round corrects the error that the trees before it leave. When the samples have
  // doubled, the training starts from scratch, to replace the trees that learned from few samples. The rounds between
  // two doublings add up to about 70 % (ln 2) of a training from scratch.
  Status Train() override {
    if (best_.empty() || samples_.size() < kFewest || samples_.size() == trained_on_) return {};
    const bool again = samples_.size() >= 2 * started_on_;
    const double fresh = static_cast<double>(samples_.size() - trained_on_) / static_cast<double>(samples_.size());
    const int rounds = again ? options_.rounds : std::max(1, static_cast<int>(std::lround(fresh * options_.rounds)));
    TRY(residual_.Boost(Residuals(), rounds, again, "reg:squarederror", 0, options_));
    if (TrainingSet outcomes = Outcomes(); !outcomes.rows.empty()) {
      const bool first = failure_.empty();
      TRY(failure_.Boost(outcomes, first ? options_.rounds : rounds, again, "binary:logistic", 0.5, options_));
    }
    if (again) started_on_ = samples_.size();
    trained_on_ = samples_.size();
    CountContrast();
    return {};
  }

  bool ready() const override { return !residual_.empty(); }

  Result<std::vector<float>> Predict(uint64_t task, std::span<const Candidate> candidates) const override {
    std::vector<float> scores;
    std::vector<const Features*> rows;
    for (const Candidate& candidate : candidates) {
      scores.push_back(static_cast<float>(-std::log(candidate.draft_seconds)));
      rows.push_back(candidate.features);
    }
    if (rows.empty() || !ready()) return scores;
    const std::vector<float> residuals = residual_.Predict(rows);
    const float share = static_cast<float>(ShareOf(task));
    for (size_t i = 0; i < rows.size(); ++i) scores[i] += share * residuals[i];
    if (failure_.empty()) return scores;
    const std::vector<float> failures = failure_.Predict(rows);
    for (size_t i = 0; i < rows.size(); ++i)
      scores[i] += static_cast<float>(std::log(std::max(kLeastChance, 1.0 - failures[i])));
    return scores;
  }

 private:
  double ShareOf(uint64_t task) const {
    auto it = contrast_.find(task);
    double own = it == contrast_.end() ? 0 : it->second;
    return (own + kOthers) / (own + kTrust);
  }

  TrainingSet Residuals() const {
    std::unordered_map<uint64_t, std::vector<double>> by_task;
    auto residual = [](const Sample& sample) { return std::log(sample.draft_seconds / sample.seconds); };
    for (const Sample& sample : samples_) {
      if (std::isfinite(sample.seconds)) by_task[sample.task].push_back(residual(sample));
    }
    std::unordered_map<uint64_t, double> centre;
    for (auto& [task, residuals] : by_task) centre[task] = Median(std::move(residuals));
    TrainingSet set;
    for (const Sample& sample : samples_) {
      if (!std::isfinite(sample.seconds)) continue;
      set.rows.push_back(&sample.features);
      set.labels.push_back(static_cast<float>(residual(sample) - centre[sample.task]));
      set.weights.push_back(static_cast<float>(std::max(kLeastWeight, best_.at(sample.task) / sample.seconds)));
    }
    return set;
  }

  // Returns the training set of the classifier of failures. It is empty unless there are both failures and successes,
  // since a classifier needs examples of both.
  TrainingSet Outcomes() const {
    TrainingSet set;
    size_t failures = 0;
    for (const Sample& sample : samples_) {
      bool failed = !std::isfinite(sample.seconds);
      failures += failed;
      set.rows.push_back(&sample.features);
      set.labels.push_back(failed ? 1.f : 0.f);
      set.weights.push_back(1.f);
    }
    return failures > 0 && failures < samples_.size() ? std::move(set) : TrainingSet{};
  }

  void CountContrast() {
    contrast_.clear();
    for (const Sample& sample : samples_) {
      auto best = best_.find(sample.task);
      if (best != best_.end() && sample.seconds > kContrast * best->second) ++contrast_[sample.task];
    }
  }

  XgboostOptions options_;
  Trees residual_, failure_;
  size_t trained_on_ = 0, started_on_ = 0;  // samples at the last training, and at the last one from scratch
  std::vector<Sample> samples_;
  std::unordered_map<uint64_t, double> best_;   // shortest measured time in seconds, by task
  std::unordered_map<uint64_t, int> contrast_;  // samples with contrast at the last training, by task
};

}  // namespace

std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options) {
  return std::make_unique<XgboostModel>(options);
}

}  // namespace autotune
