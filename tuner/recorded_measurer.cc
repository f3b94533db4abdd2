#include "tuner/recorded_measurer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "costmodel/regression.h"
#include "schedule/trace.h"
#include "support/statistics.h"
#include "tuner/parallel.h"

namespace autotune {
namespace {

// Least number of candidates for a regression. Without a regression every candidate gets the median time.
constexpr int kFewest = 8;
constexpr size_t kFewestToHoldOut = 32;  // least number of candidates of a task that holds some of them out
constexpr float kViable = 0.5F;          // predicted success (0 to 1) from which a candidate counts as working

// Returns true if a candidate with this status has a time, or a lower bound of it.
bool HasTime(TrialStatus status) { return status == TrialStatus::kOk || status == TrialStatus::kCutOff; }

// Predicts the outcomes of candidates of one task that were not recorded.
class TaskModel {
 public:
  Status Fit(const RecordedTask& task, const std::vector<size_t>& seen, uint64_t seed) {
    std::vector<const Features*> ran, all;
    std::vector<float> times, successes;
    std::vector<double> logs;
    for (size_t i : seen) {
      const RecordedCandidate& candidate = task.candidates[i];
      all.push_back(&candidate.features);
      successes.push_back(HasTime(candidate.status) ? 1 : 0);
      if (!HasTime(candidate.status)) {
        ++failures_[candidate.status];
        continue;
      }
      ran.push_back(&candidate.features);
      logs.push_back(std::log(candidate.seconds));
      times.push_back(static_cast<float>(logs.back()));
    }
    if (logs.empty()) return Err("the recording has no candidate that ran");
    best_ = task.BestSeconds();
    middle_ = std::exp(Median(logs));
    slowest_ = std::exp(*std::max_element(logs.begin(), logs.end()));
    if (static_cast<int>(ran.size()) >= kFewest) time_ = TRY(FitRegression(ran, times, {.seed = seed}));
    if (static_cast<int>(all.size()) >= kFewest && !failures_.empty())
      success_ = TRY(FitRegression(all, successes, {.seed = seed}));
    return {};
  }

  // Returns a time, or the most frequent failure.
  RecordedDevice::Answer Predict(const Features& features) const {
    if (!success_ || success_->Predict({&features, 1})[0] >= kViable) return {.seconds = PredictSeconds(features)};
    auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
    return {.status = std::max_element(failures_.begin(), failures_.end(), more)->first};
  }

  double PredictSeconds(const Features& features) const {
    return time_ ? std::max(best_, static_cast<double>(std::exp(time_->Predict({&features, 1})[0]))) : middle_;
  }

  // Returns a time for the unscheduled program, which is not recorded. The value is not important: a reference kernel
  // only needs a constant time.
  double ReferenceSeconds() const { return slowest_; }

 private:
  double best_ = 0, middle_ = 0, slowest_ = 0;
  std::map<TrialStatus, int> failures_;
  std::unique_ptr<Regression> time_, success_;
};

FitError Evaluate(const TaskModel& model, const RecordedTask& task, const std::vector<size_t>& seen,
                  const std::vector<size_t>& unseen) {
  auto ran = [&](size_t i) { return task.candidates[i].status == TrialStatus::kOk; };
  FitError error{.fitted = static_cast<int>(std::count_if(seen.begin(), seen.end(), ran))};
  std::vector<double> predicted, recorded, errors;
  int right = 0;
  for (size_t i : unseen) {
    const RecordedCandidate& candidate = task.candidates[i];
    right += HasTime(candidate.status) == (model.Predict(candidate.features).status == TrialStatus::kOk);
    if (!ran(i)) continue;
    predicted.push_back(model.PredictSeconds(candidate.features));
    recorded.push_back(candidate.seconds);
    errors.push_back(std::abs(std::log(predicted.back() / recorded.back())));
  }
  error.held_out = static_cast<int>(errors.size());
  if (!unseen.empty()) error.right_verdicts = static_cast<double>(right) / static_cast<double>(unseen.size());
  if (!errors.empty()) {
    error.median_log_error = Median(errors);
    error.rank_correlation = RankCorrelation(predicted, recorded);
  }
  return error;
}

// Computes the features again if the recording has features of another schema. Candidates that the current rules do not
// make keep their times, but get no features, so the model does not learn from them.
Status RefreshFeatures(const RecordedHeader& header, const TuneTask& tune, const Target& target, RecordedTask& task) {
  if (header.versions.feature_schema == kFeatureVersion) return {};
  TaskSpace space = TRY(TaskSpace::Make(tune, target));
  for (RecordedCandidate& candidate : task.candidates) {
    candidate.features.clear();
    std::optional<Proposal> proposal = Locate(space, candidate.alternative, TRY(ParseTrace(candidate.trace)));
    if (proposal) candidate.features = std::move(proposal->features);
  }
  return {};
}

class LoadedDevice : public RecordedDevice {
 public:
  Status Load(Recording recording, const RecordedDeviceOptions& options) {
    recording_ = std::move(recording);
    target_ = TRY(Target::Parse(recording_.header.target));
    for (const RecordedTask& task : recording_.tasks) {
      tasks_.push_back(TRY(MakeTuneTask(task)));
      index_[tasks_.back().hash] = tasks_.size() - 1;
    }
    models_.resize(tasks_.size());
    fit_.resize(tasks_.size());
    known_.resize(tasks_.size());
    return ForEachInParallel(tasks_.size(), 0, [&](size_t i) -> Status {
      TRY_NOTE(Learn(i, options), "in task " + tasks_[i].label);
      return {};
    });
  }

  const Recording& recording() const override { return recording_; }
  const std::vector<TuneTask>& tasks() const override { return tasks_; }
  const std::vector<FitError>& fit() const override { return fit_; }
  const Target& target() const override { return target_; }

  Answer Ask(const TaskSpace& space, const Proposal& proposal) const override {
    auto task = index_.find(space.task->hash);
    CHECK(task != index_.end());
    if (proposal.trace.empty()) return {.seconds = models_[task->second].ReferenceSeconds()};
    const std::string& alternative = space.task->alternatives[space.sketches[proposal.sketch].alternative].name;
    const auto& known = known_[task->second];
    if (auto it = known.find(KeyOf(alternative, ToText(proposal.trace))); it != known.end()) {
      const RecordedCandidate& candidate = recording_.tasks[task->second].candidates[it->second];
      return {.status = candidate.status, .seconds = candidate.seconds, .recorded = true};
    }
    if (!proposal.features.empty()) return models_[task->second].Predict(proposal.features);
    std::optional<Proposal> replayed = Locate(space, alternative, proposal.trace);
    return models_[task->second].Predict(replayed ? replayed->features : Features(NumFeatures()));
  }

 private:
  static Hash128 KeyOf(const std::string& alternative, const std::string& trace) {
    return HashBytes128(alternative + '\n' + trace);
  }

  Status Learn(size_t index, const RecordedDeviceOptions& options) {
    RecordedTask& task = recording_.tasks[index];
    TRY(RefreshFeatures(recording_.header, tasks_[index], target_, task));
    std::vector<size_t> seen, unseen;
    Rng rng(HashCombine(options.seed, index));
    const double held_out = task.candidates.size() < kFewestToHoldOut ? 0 : options.held_out;
    for (size_t i = 0; i < task.candidates.size(); ++i) {
      const RecordedCandidate& candidate = task.candidates[i];
      known_[index][KeyOf(candidate.alternative, candidate.trace)] = i;
      if (candidate.features.size() != static_cast<size_t>(NumFeatures())) continue;
      (rng.Uniform() < held_out ? unseen : seen).push_back(i);
    }
    TRY(models_[index].Fit(task, seen, options.seed));
    fit_[index] = Evaluate(models_[index], task, seen, unseen);
    return {};
  }

  Recording recording_;
  Target target_;
  std::vector<TuneTask> tasks_;
  std::vector<TaskModel> models_;
  std::vector<FitError> fit_;
  std::vector<std::unordered_map<Hash128, size_t>> known_;  // for each task: index of a candidate, by KeyOf
  std::unordered_map<Hash128, size_t> index_;               // index of a task, by its hash
};

class RecordedMeasurer : public Measurer {
 public:
  RecordedMeasurer(std::shared_ptr<const RecordedDevice> device, const RecordedMeasurerOptions& options)
      : device_(std::move(device)), noise_(options.noise), rng_(options.seed) {}

  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    std::vector<Outcome> outcomes;
    for (const MeasureItem& item : items) outcomes.push_back(OutcomeOf(item, options.repeats));
    return outcomes;
  }

 private:
  Outcome OutcomeOf(const MeasureItem& item, int repeats) {
    RecordedDevice::Answer answer = device_->Ask(*item.space, item.proposal);
    Outcome outcome{.status = answer.status, .device = "recorded"};
    outcome.facts["recorded"] = answer.recorded;
    if (answer.status == TrialStatus::kOk && item.cutoff_seconds > 0 && answer.seconds > item.cutoff_seconds)
      outcome.status = TrialStatus::kCutOff;
    if (outcome.status == TrialStatus::kCutOff) outcome.cost = answer.seconds;
    if (outcome.status != TrialStatus::kOk) {
      outcome.error = answer.recorded ? "the candidate's recorded outcome" : "predicted by the model of the recording";
      return outcome;
    }
    for (int i = 0; i < repeats; ++i)
      outcome.times.push_back(answer.seconds * (noise_ > 0 ? std::exp(noise_ * std::abs(rng_.Normal())) : 1));
    outcome.cost = *std::min_element(outcome.times.begin(), outcome.times.end());
    outcome.verified = item.check;
    return outcome;
  }

  std::shared_ptr<const RecordedDevice> device_;
  double noise_;
  Rng rng_;
};

}  // namespace

Result<std::shared_ptr<const RecordedDevice>> RecordedDevice::Make(Recording recording,
                                                                   const RecordedDeviceOptions& options) {
  auto device = std::make_shared<LoadedDevice>();
  TRY(device->Load(std::move(recording), options));
  return std::shared_ptr<const RecordedDevice>(std::move(device));
}

std::unique_ptr<Measurer> MakeRecordedMeasurer(std::shared_ptr<const RecordedDevice> device,
                                               const RecordedMeasurerOptions& options) {
  return std::make_unique<RecordedMeasurer>(std::move(device), options);
}

}  // namespace autotune
