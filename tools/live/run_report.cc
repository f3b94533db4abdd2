#include "tools/live/run_report.h"

#include "support/printf_text.h"

namespace autotune::tools {

RunReport::RunReport(std::string run, std::string client_name, RunPlaces places)
    : published_(std::move(places.report)) {
  report_.page = std::move(places.page);
  report_.database = std::move(places.database);
  report_.run = std::move(run);
  report_.client_name = std::move(client_name);
  report_.state = rpc::job_state::kRunning;
}

void RunReport::Copy(const event::Round& round) {
  report_.trials = round.trials;
  report_.records = round.records;
  report_.outcomes = round.outcomes;
  report_.best_ms = round.best_ms.value_or(0);
  report_.trials_per_second = round.trials_per_second.value_or(0);
  report_.task = round.task;
  report_.seconds = round.seconds;
}

// Its own page ends with the run.
void RunReport::End(const char* state) {
  report_.state = state;
  report_.page.clear();
  report_.report = published_;
}

void RunReport::Take(const event::Any& event) {
  if (const auto* begin = std::get_if<event::Begin>(&event)) {
    report_.network = begin->model;
    report_.key = begin->key;
    report_.planned_trials = begin->trials;
  } else if (const auto* waiting = std::get_if<event::Waiting>(&event)) {
    report_.phase = waiting->reason.empty() ? "" : "waiting for " + waiting->what;
  } else if (const auto* round = std::get_if<event::Round>(&event)) {
    report_.phase.clear();
    Copy(*round);
  } else if (const auto* confirmed = std::get_if<event::Confirmed>(&event)) {
    report_.phase = Format("confirming the best: %d of %d tasks", static_cast<int>(confirmed->tasks),
                           static_cast<int>(confirmed->planned_tasks));
    // The time of comparisons in turns does not belong to the curve of the search.
    const double best = report_.best_ms;
    Copy(confirmed->round);
    report_.best_ms = best;
  } else if (const auto* choosing = std::get_if<event::Choosing>(&event)) {
    report_.phase = Format("comparing whole networks: %.0f %%", 100 * choosing->done);
  } else if (const auto* end = std::get_if<event::End>(&event)) {
    report_.seconds = end->seconds;
  } else if (const auto* saved = std::get_if<event::Saved>(&event)) {
    End(rpc::job_state::kDone);
    report_.phase.clear();
    report_.result = saved->gain;
  } else if (std::get_if<event::Interrupted>(&event)) {
    End(rpc::job_state::kStopped);
    report_.result = "interrupted";
  }
}

}  // namespace autotune::tools
