#include "tools/live/tune_view.h"

namespace autotune::tools {
namespace {

constexpr size_t kMostNotes = 100;   // that the page shows [chosen]
constexpr double kSpeedSeconds = 5;  // over which a speed is taken, at least [chosen]

}  // namespace

void TuneView::Take(const event::Any& event, int64_t now) {
  if (began_ == 0) began_ = now;
  std::visit([&](const auto& e) { On(e, now); }, event);
}

void TuneView::On(const event::Begin& e, int64_t) {
  begin_ = e;
  phase_ = "searching";
}

void TuneView::On(const event::Waiting& e, int64_t now) {
  if (e.reason.empty()) {
    waits_.erase(e.what);
  } else {
    waits_[e.what] = {e.reason, now - static_cast<int64_t>(e.seconds * 1e3) / 1000 * 1000};
  }
}

void TuneView::On(const event::Round& e, int64_t) {
  round_ = e;
  waits_.clear();
  if (e.best_ms) best_.Add(e.trials, *e.best_ms);
  Task& task = tasks_[e.hash];
  task.label = e.task;
  task.best_ms = e.task_best_ms;
  if (e.task_best_ms) task.curve.Add(e.trials, *e.task_best_ms);
  const double seconds = e.seconds - counted_seconds_;
  if (counted_seconds_ == 0) {
    counted_trials_ = e.resumed_trials;
  } else if (seconds < kSpeedSeconds) {
    return;
  }
  if (seconds > 0)
    speeds_.Add(static_cast<int64_t>(e.seconds), static_cast<double>(e.trials - counted_trials_) / seconds);
  counted_seconds_ = e.seconds;
  counted_trials_ = e.trials;
}

void TuneView::On(const event::Confirmed& e, int64_t) {
  round_ = e.round;
  confirmed_ = true;
  waits_.clear();
  phase_ = "confirming the best";
  done_ = e.planned_tasks > 0 ? static_cast<double>(e.tasks) / static_cast<double>(e.planned_tasks) : 0;
}

void TuneView::On(const event::Step& e, int64_t) {
  waits_.clear();
  phase_ = e.step;
  done_ = e.total > 0 ? static_cast<double>(e.done) / static_cast<double>(e.total) : 0;
}

void TuneView::On(const event::Precisions& e, int64_t) {
  const PrecisionPoint& chosen = e.choice.chosen();
  notes_.push_back("precisions: " + chosen.name + ", " + std::to_string(chosen.f32) + " products of f32, " +
                   std::to_string(chosen.bf16) + " of bf16, " + std::to_string(chosen.int8) + " of 8 bits");
}

void TuneView::On(const event::Choosing& e, int64_t) {
  waits_.clear();
  phase_ = "comparing whole networks";
  done_ = e.done;
}

void TuneView::On(const event::Note& e, int64_t) {
  if (notes_.size() < kMostNotes) notes_.push_back(e.text);
}

void TuneView::On(const event::End& e, int64_t) {
  end_ = e;
  waits_.clear();
  phase_ = "writing the results";
  done_ = 1;
}

void TuneView::On(const event::Saved& e, int64_t now) {
  saved_ = e;
  phase_ = "ended";
  ended_ = now;
}

void TuneView::On(const event::Interrupted& e, int64_t now) {
  interrupted_ = e;
  waits_.clear();
  phase_ = "interrupted";
  ended_ = now;
}

Json TuneView::State(int64_t now) const {
  Json::Object tasks, waits;
  for (const auto& [hash, task] : tasks_) {
    Json::Object state{{"label", task.label}, {"curve", task.curve.State()}};
    if (task.best_ms) state.emplace("best_ms", *task.best_ms);
    tasks.emplace(hash, std::move(state));
  }
  for (const auto& [what, reason_since] : waits_)
    waits.emplace(what, Json::Object{{"reason", reason_since.first}, {"since", reason_since.second}});
  Json::Object state{{"kind", "tune"},
                     {"program", version_},
                     {"now", now},
                     {"phase", phase_},
                     {"done", done_},
                     {"curve", best_.State()},
                     {"tasks", std::move(tasks)},
                     {"speeds", speeds_.State()},
                     {"waits", std::move(waits)},
                     {"notes", ToJson(notes_)},
                     {"began", began_},
                     {"confirmed", confirmed_}};
  if (ended_ != 0) state.emplace("ended", ended_);
  if (begin_) state.emplace("begin", ToJson(*begin_));
  if (round_) state.emplace("round", ToJson(*round_));
  if (end_) state.emplace("end", ToJson(*end_));
  if (saved_) state.emplace("saved", ToJson(*saved_));
  if (interrupted_) state.emplace("interrupted", ToJson(*interrupted_));
  return state;
}

}  // namespace autotune::tools
