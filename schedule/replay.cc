#include "schedule/replay.h"

#include "ir/watch.h"
#include "schedule/state.h"

namespace autotune {

using schedule::State;

const PrimFunc& Snapshot::func() const { return state_->func; }

class Replayer {
 public:
  static Result<Schedule> Run(State state, const Trace& trace, size_t begin, const ReplayOptions& options) {
    Trace history(trace.begin(), trace.begin() + begin);
    history.reserve(trace.size());
    state.rng = options.rng;
    for (size_t i = begin; i < trace.size(); ++i) {
      Step step = trace[i];
      if (Decision* decision = DecisionOf(step)) {
        if (options.snapshots) options.snapshots->push_back(Take(state, i));
        auto override = options.overrides.find(i);
        if (override != options.overrides.end()) {
          *decision = override->second;
        } else if (options.resample_all) {
          *decision = {};
        }
      }
      Status status = schedule::Apply(state, step);
      if (!status.ok()) {
        return std::move(status).error().Note("while replaying step " + std::to_string(i + 1) + ": " + ToText(step));
      }
      ShowProgram(state.func, [&] { return "after the step " + ToText(step); });
      history.push_back(std::move(step));
    }
    state.rng = nullptr;
    return Schedule(std::make_unique<State>(std::move(state)), std::move(history));
  }
  static Result<Schedule> RunFrom(const Snapshot& snapshot, const Trace& trace, const ReplayOptions& options) {
    if (snapshot.step_ >= trace.size()) return Err("the snapshot is of another trace");
    return Run(*snapshot.state_, trace, snapshot.step_, options);
  }

 private:
  static Snapshot Take(const State& state, size_t step) {
    auto copy = std::make_shared<State>(state);
    copy->rng = nullptr;
    Snapshot snapshot;
    snapshot.step_ = step;
    snapshot.state_ = std::move(copy);
    return snapshot;
  }
};

Result<Schedule> Replay(const PrimFunc& func, const Trace& trace, const ReplayOptions& options) {
  return Replayer::Run(State(func), trace, 0, options);
}

Result<Schedule> ReplayFrom(const Snapshot& snapshot, const Trace& trace, const ReplayOptions& options) {
  return Replayer::RunFrom(snapshot, trace, options);
}

}  // namespace autotune
