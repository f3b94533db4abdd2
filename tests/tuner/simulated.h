// A simulated device. The time of a candidate is a function of the candidate, and some candidates fail.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule/trace.h"
#include "support/hash.h"
#include "tests/tuner/programs.h"
#include "tuner/measurer.h"

namespace autotune::test {

class Simulated : public Measurer {
 public:
  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions&) override {
    std::vector<Outcome> outcomes;
    calls.emplace_back();
    for (const MeasureItem& item : items) {
      std::string trace = ToText(item.proposal.trace);
      calls.back().push_back({item.space->task->label, trace, item.check});
      ++times[trace];
      outcomes.push_back(One(item, trace));
    }
    return outcomes;
  }

  struct Item {
    std::string task, trace;
    bool check;  // false: the reference kernel, or a candidate that was verified before
    auto operator<=>(const Item&) const = default;
  };
  // Returns the measurements that verify a candidate's result, in order.
  std::vector<Item> Candidates() const {
    std::vector<Item> candidates;
    for (const auto& call : calls) {
      for (const Item& item : call) {
        if (item.check) candidates.push_back(item);
      }
    }
    return candidates;
  }

  std::vector<std::vector<Item>> calls;
  std::map<std::string, int> times;     // number of measurements, by trace
  std::map<std::string, double> truth;  // seconds of the candidates that work, by trace

 protected:
  // Returns the outcome of one item. One candidate in seven is rejected or wrong.
  virtual Outcome One(const MeasureItem& item, const std::string& trace) {
    uint64_t hash = Hash64(trace);
    if (hash % 7 == 0 && !trace.empty()) {
      TrialStatus status = hash % 2 ? TrialStatus::kRejected : TrialStatus::kWrongAnswer;
      return {.status = status, .error = "injected", .cost = hash % 2 ? 0 : 1e-9};  // wrong answers are the fastest
    }
    return Good(item, trace);
  }

  Outcome Good(const MeasureItem& item, const std::string& trace) {
    double noise = 1 + 0.2 * static_cast<double>(Hash64(trace) % 1000) / 1000;
    double seconds = trace.empty() ? 1e-2
                                   : DraftSeconds(item.space->sketches[item.proposal.sketch], item.proposal.decisions,
                                                  item.space->target) *
                                         noise;
    if (!std::isfinite(seconds)) seconds = 1;  // a random draw that does not fit the registers
    truth[trace] = seconds;
    return {.status = TrialStatus::kOk, .times = {seconds}, .cost = seconds, .verified = item.check};
  }
};

// A simulated device on which a script decides the outcome of each item.
class Scripted : public Simulated {
 public:
  using Script = std::function<Outcome(Scripted& device, const MeasureItem& item, const std::string& trace)>;
  explicit Scripted(Script script) : script_(std::move(script)) {}
  using Simulated::Good;

 protected:
  Outcome One(const MeasureItem& item, const std::string& trace) override { return script_(*this, item, trace); }

 private:
  Script script_;
};

inline std::vector<TuneTask> TwoTasks() {
  return {MakeTask("conv", ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}}), 3),
          MakeTask("dense", Dense(16, 96, 64))};
}

inline Outcome Failure(TrialStatus status) { return {.status = status, .error = "injected"}; }

}  // namespace autotune::test
