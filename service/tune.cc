#include "service/tune.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "service/recorded_tune.h"
#include "service/time_budget.h"
#include "service/tune_work.h"
#include "support/hint.h"
#include "support/output_file.h"

namespace autotune {

int TuneRequest::TrialsFor(size_t tasks) const {
  if (trials_per_task == 0) return trials.value_or(time_budget.empty() ? kTrials : kUnlimitedTrials);
  const int64_t all = int64_t{trials_per_task} * std::max<int64_t>(1, static_cast<int64_t>(tasks));
  return static_cast<int>(std::min<int64_t>(all, std::numeric_limits<int>::max()));
}

Status TuneRequest::Check() const {
  const bool recorded = !RecordingOf(model.device).empty();
  if (recorded) {
    TRY(CheckRecordedRequest(*this));
  } else {
    TRY(model.CheckToTune());
    TRY(model.CheckDevice(/*runs=*/!OnFarm()));
  }
  if (seeds < 1) return Err("the number of seeds is ", seeds, "; it must be 1 or more");
  if (seeds > 1 && !recorded) return Err("--seeds is for --device recorded:FILE; give another device one --seed");
  TRY(ParseTimeBudget(time_budget));
  TRY(ParseSeconds("--plugin-deadline", plugin_deadline));
  if (!strategy.empty() && !cost_model.empty())
    return Err("--cost-model scores the candidates of autotune's own search; leave it or --strategy out");
  if (search != "evolution" && !(strategy.empty() && cost_model.empty()))
    return Err("--search ", search, " has no effect with --strategy or --cost-model");
  if (trials && *trials < 1) return Err("the number of trials is ", *trials, "; it must be 1 or more");
  if (trials_per_task < 0) return Err("the number of trials for each task is ", trials_per_task);
  if (!EnumFromText<SearchKind>(search)) return Err("there is no search '", search, "'; say evolution or random");
  if (!output.empty()) TRY(CheckCompiledFile(output, "graph"));
  if (OnFarm() && key.empty()) {
    return WithHint(Err("a farm needs --key, the key of the devices to tune on"),
                    "rpc_tracker status" + tracker.Words() + " lists them");
  }
  if (OnFarm() && model.precision == "auto")
    return WithHint(
        Err("--precision auto measures on this machine, so it does not go with --tracker, --join and --key"),
        "choose one here: --precision bf16, or the 8 bits of autotune quantize");
  return {};
}

namespace {
constexpr double kLongestWait = 1e6;  // seconds; clocks of waits overflow at 300 years
}

class TuneRun::Impl {
 public:
  explicit Impl(TuneRequest request)
      : work_(std::move(request), [this](const event::Any& event) { Push(event); }), thread_([this] { Run(); }) {}
  ~Impl() {
    work_.Cancel();
    thread_.join();
  }

  std::optional<event::Any> NextEvent(std::optional<double> seconds) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !events_.empty() || result_; };
    if (!seconds) {
      changed_.wait(lock, ready);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(std::min(*seconds, kLongestWait)), ready);
    }
    if (events_.empty()) return std::nullopt;
    std::optional<event::Any> event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  bool has_ended() const {
    const std::lock_guard hold(mutex_);
    return result_ && events_.empty();
  }
  Result<TuneEnd> Finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return result_.has_value(); });
    events_.clear();
    return *result_;
  }
  TuneWork& work() { return work_; }

 private:
  void Push(const event::Any& event) {
    const std::lock_guard hold(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  void Run() {
    Result<TuneEnd> result = work_.Run();
    const std::lock_guard hold(mutex_);
    result_ = std::move(result);
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<event::Any> events_;          // guarded by mutex_
  std::optional<Result<TuneEnd>> result_;  // guarded by mutex_; empty: the run goes on
  TuneWork work_;
  std::thread thread_;
};

TuneRun::TuneRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TuneRun::~TuneRun() = default;

Result<std::unique_ptr<TuneRun>> TuneRun::Start(TuneRequest request) {
  TRY(request.Check());
  return std::unique_ptr<TuneRun>(new TuneRun(std::make_unique<Impl>(std::move(request))));
}

std::optional<event::Any> TuneRun::NextEvent(std::optional<double> seconds) { return impl_->NextEvent(seconds); }
bool TuneRun::has_ended() const { return impl_->has_ended(); }
void TuneRun::Cancel() { impl_->work().Cancel(); }
void TuneRun::Abandon() { impl_->work().Abandon(); }
TuneStage TuneRun::stage() const { return impl_->work().stage(); }
std::string TuneRun::EndedAtOnceText() const { return impl_->work().EndedAtOnceText(); }
Result<TuneEnd> TuneRun::Finish() { return impl_->Finish(); }

}  // namespace autotune
