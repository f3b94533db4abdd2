#include "tuner/plugin_model.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "support/number_text.h"

namespace autotune {
namespace {

struct PluginScores {
  std::vector<double> scores;
  AUTOTUNE_FIELDS(scores)
};

// The tuner passes a task to a model as a number; messages have its hexadecimal text.
std::string TaskMember(uint64_t task) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(task));
  return "\"task\":\"" + std::string(digits) + '"';
}

class PluginModel : public CostModel {
 public:
  PluginModel(std::shared_ptr<Plugin> plugin, uint64_t seed) : plugin_(std::move(plugin)), seed_(seed) {}

  void Add(std::vector<Sample> samples) override {
    if (samples.empty()) return;
    std::string text = "{\"method\":\"samples\",\"samples\":[";
    for (const Sample& sample : samples) {
      if (text.back() != '[') text += ',';
      text += '{' + TaskMember(sample.task);
      AppendNumber(text += ",\"draft_seconds\":", sample.draft_seconds);
      AppendNumber(text += ",\"seconds\":", sample.seconds);
      AppendNumbers(text += ",\"features\":", sample.features);
      text += '}';
    }
    plugin_->Tell(text + "]}");
    for (Sample& sample : samples) samples_.push_back(std::move(sample));
  }

  Status Train() override { return {}; }  // the process decides when it learns
  bool ready() const override { return !samples_.empty(); }

  Result<std::vector<float>> Predict(uint64_t task, std::span<const Candidate> candidates) const override {
    if (candidates.empty()) return std::vector<float>();
    std::string text = "{\"method\":\"score\"," + TaskMember(task) + ",\"candidates\":[";
    for (const Candidate& candidate : candidates) {
      if (text.back() != '[') text += ',';
      AppendNumber(text += "{\"draft_seconds\":", candidate.draft_seconds);
      AppendNumbers(text += ",\"features\":", *candidate.features);
      text += '}';
    }
    const std::optional<Json> answer = TRY(plugin_->Ask(text + "]}"));
    if (!answer) return OurScores(task, candidates);
    Result<PluginScores> parsed = FromJson<PluginScores>(*answer);
    if (!parsed.ok()) return plugin_->Nonsense(parsed.error().message);
    if (parsed->scores.size() != candidates.size()) {
      return plugin_->Nonsense(std::to_string(parsed->scores.size()) + " scores for " +
                               std::to_string(candidates.size()) + " candidates");
    }
    std::vector<float> scores;
    for (double score : parsed->scores) {
      scores.push_back(static_cast<float>(score));
      if (!std::isfinite(scores.back())) return plugin_->Nonsense("a score is no number of 32 bits");
    }
    return scores;
  }

 private:
  Result<std::vector<float>> OurScores(uint64_t task, std::span<const Candidate> candidates) const {
    if (!ours_) ours_ = MakeXgboostModel({.seed = seed_});
    ours_->Add({samples_.begin() + static_cast<std::ptrdiff_t>(known_to_ours_), samples_.end()});
    known_to_ours_ = samples_.size();
    TRY(ours_->Train());
    return ours_->Predict(task, candidates);
  }

  const std::shared_ptr<Plugin> plugin_;
  const uint64_t seed_;
  std::vector<Sample> samples_;
  mutable std::unique_ptr<CostModel> ours_;  // made when the plug-in is too late for the first time
  mutable size_t known_to_ours_ = 0;         // number of samples that it has
};

}  // namespace

std::unique_ptr<CostModel> MakePluginModel(std::shared_ptr<Plugin> plugin, uint64_t seed) {
  return std::make_unique<PluginModel>(std::move(plugin), seed);
}

}  // namespace autotune
