#include "service/tune_events.h"

#include <algorithm>
#include <cstdio>

#include "service/choice_report.h"
#include "service/machine_text.h"
#include "service/text.h"
#include "topi/alternatives.h"

namespace autotune {
namespace {

std::optional<double> Measured(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

// Returns the number of candidates of the run by outcome. Their sum is the number of records.
std::map<std::string, int64_t> OutcomesOf(const TuneReport& report) {
  std::map<std::string, int64_t> outcomes;
  int64_t ok = report.records;
  for (const TaskReport& task : report.tasks) {
    for (const auto& [status, count] : task.failures) {
      outcomes[std::string(ToText(status))] += count;
      ok -= count;
    }
  }
  outcomes["ok"] = ok;
  return outcomes;
}

// Milliseconds of all calls of the task in one run of the network, by the best schedule, or by the default one if no
// other is known. 0: nothing was measured.
double NetworkMs(const event::Task& task) {
  return task.tuned_ms.value_or(task.default_ms.value_or(0)) * static_cast<double>(task.weight);
}

event::Task TaskOf(const TaskReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) {
  // The default schedule may have been measured in this run and in an earlier one. Disturbances only add time, so the
  // row shows the shorter one, and all its numbers follow from it.
  const bool keeps_default = report.best_seconds > 0 && report.best_trace == report.default_trace &&
                             report.best_alternative == report.default_alternative;
  double tuned = report.best_seconds, untuned = report.default_seconds;
  if (keeps_default && untuned > 0) tuned = untuned = std::min(tuned, untuned);
  event::Task row{.task = report.task->label,
                  .hash = report.task->hash.Hex(),
                  .weight = report.task->weight,
                  .gflop = report.task->flops / 1e9,
                  .trials = report.trials,
                  .default_ms = Measured(untuned * 1e3),
                  .tuned_ms = Measured(tuned * 1e3)};
  const bool measured = tuned > 0;
  if (measured) {
    const double rate = report.task->flops / tuned;
    row.gflops = Measured(rate / 1e9);
    if (peak_flops && !report.task->small_products) row.peak_share = Measured(rate / *peak_flops);
  }
  row.keeps_default = keeps_default;
  row.only_schedule = report.only_schedule;
  const ChosenSchedule* schedule = chosen ? chosen->choice.Find(row.hash) : nullptr;
  row.network_differs = schedule && measured && schedule->trace != report.best_trace;
  row.winograd = topi::IsWinograd(report.best_alternative);
  row.failed = !measured && report.records > 0;
  return row;
}

// Estimates the remaining seconds of the search. A task that has no other schedule, or runs at the machine's peak, gets
// no more trials, so nothing is left if all tasks are such.
std::optional<double> SecondsLeft(const TuneReport& report, double rate, const TuneOptions& options) {
  const bool open = std::any_of(report.tasks.begin(), report.tasks.end(), [](const TaskReport& task) {
    return !task.exhausted && !task.only_schedule && !task.at_roofline;
  });
  if (!open) return 0.0;
  const double by_time = std::max(0.0, options.time_budget - report.seconds);
  if (rate <= 0) return options.time_budget > 0 ? std::optional(by_time) : std::nullopt;
  const double by_trials = std::max(0, options.trials - report.trials) / rate;
  return options.time_budget > 0 ? std::min(by_trials, by_time) : by_trials;
}

// Returns the gains that are sure, those of most threads first, since `run` and `bench` use all; and then the numbers
// of threads that are not decided: "1.10 times as fast as untuned on 2 threads (1 thread: no sure difference)". Returns
// an empty text if no gain is sure.
std::string SureGains(std::vector<event::Comparison> comparisons) {
  std::sort(comparisons.begin(), comparisons.end(), [](const auto& a, const auto& b) { return a.threads > b.threads; });
  std::string sure, open;
  for (const event::Comparison& c : comparisons) {
    const std::string threads = PlaceText(c.threads);
    if (c.speedup_low > 1) {
      sure += (sure.empty() ? "" : ", ") + Format("%.3f", c.speedup) +
              (sure.empty() ? " times as fast as untuned on " : " on ") + threads;
    } else {
      open += (open.empty() ? " (" : ", ") + threads + ": no sure difference";
    }
  }
  return sure.empty() ? "" : sure + open + (open.empty() ? "" : ")");
}

}  // namespace

event::Begin BeginOf(const Network& network, const std::vector<TuneTask>& tasks, const Target& target,
                     const TuneOptions& options, bool chooses) {
  event::Begin begin{.model = network.name, .machine = MachineText(target), .target = target.Text()};
  for (const TuneTask& task : tasks) begin.gflop += task.flops * task.weight / 1e9;
  begin.tasks = static_cast<int64_t>(tasks.size());
  begin.network_tasks = static_cast<int64_t>(TasksToTune(network).size());
  begin.trials = PlannedTrials(options.trials);
  begin.final_step = chooses ? "choice" : options.confirm ? "confirmation" : "";
  return begin;
}

event::Any ProgressOf(const TuneReport& so_far, const TaskReport& current, const TuneOptions& options) {
  event::Round round{.trials = so_far.trials,
                     .planned_trials = PlannedTrials(options.trials),
                     .resumed_trials = so_far.resumed_trials,
                     .records = so_far.records,
                     .outcomes = OutcomesOf(so_far),
                     .seconds = so_far.seconds,
                     .tasks = static_cast<int64_t>(so_far.tasks.size()),
                     .task = current.task->label,
                     .hash = current.task->hash.Hex(),
                     .task_best_ms = Measured(current.best_seconds * 1e3)};
  const int here = so_far.trials - so_far.resumed_trials;
  if (here > 0 && so_far.seconds > 0) round.trials_per_second = here / so_far.seconds;
  if (so_far.to_confirm == 0) round.seconds_left = SecondsLeft(so_far, round.trials_per_second.value_or(0), options);
  double sum = 0;
  for (const TaskReport& task : so_far.tasks) {
    sum += task.best_seconds * 1e3 * task.task->weight;
    round.tasks_measured += task.best_seconds > 0;
  }
  round.best_ms = Measured(sum);
  if (so_far.to_confirm == 0) return round;
  return event::Confirmed{so_far.confirmed, so_far.to_confirm, std::move(round)};
}

event::End EndOf(const TuneReport& report, const TuneOptions& options, const ChosenNetwork* chosen,
                 std::optional<double> peak_flops) {
  event::End end{.trials = report.trials,
                 .resumed_trials = report.resumed_trials,
                 .records = report.records,
                 .outcomes = OutcomesOf(report),
                 .seconds = report.seconds,
                 .search_seconds = report.search_seconds,
                 .measure_seconds = report.measure_seconds,
                 .why_ended = WhyEnded(report, options),
                 .alone = options.measure.cold_bytes < 0,
                 .seed = static_cast<int64_t>(options.seed)};
  for (const auto& [status, text] : report.first_error) end.first_errors[std::string(ToText(status))] = text;
  double sum = 0;
  for (const TaskReport& task : report.tasks) {
    end.tasks.push_back(TaskOf(task, chosen, peak_flops));
    sum += NetworkMs(end.tasks.back());
  }
  for (event::Task& task : end.tasks) {
    if (NetworkMs(task) > 0) task.share = NetworkMs(task) / sum;
  }
  std::stable_sort(end.tasks.begin(), end.tasks.end(),
                   [](const event::Task& a, const event::Task& b) { return NetworkMs(a) > NetworkMs(b); });
  end.kernels_ms = Measured(sum);
  if (peak_flops) end.peak_gflops = *peak_flops / 1e9;
  if (chosen) end.choice = ToEvent(*chosen);
  return end;
}

event::Saved SavedOf(const std::string& name, const std::string& machine, const event::End& end) {
  event::Saved saved{.gain = name + " on " + machine + ": "};
  if (!end.choice) {
    double before = 0, after = 0;
    for (const event::Task& task : end.tasks) {
      if (!task.default_ms || !task.tuned_ms) continue;
      before += *task.default_ms * static_cast<double>(task.weight);
      after += *task.tuned_ms * static_cast<double>(task.weight);
    }
    saved.faster = after > 0 && after < before;
    saved.gain += saved.faster
                      ? "its kernels together are " + Format("%.3f", before / after) + " times as fast as untuned"
                      : "no kernel is faster than by its default schedule";
    return saved;
  }
  const std::string gains = SureGains(end.choice->comparisons);
  saved.faster = !end.choice->kept_defaults && !gains.empty();
  if (saved.faster) {
    saved.gain += (end.choice->kept_previous ? "by the schedules chosen before, " : "") + gains;
  } else if (end.choice->kept_defaults) {
    saved.gain += "it runs its default schedules";
  } else {
    saved.gain += CountText(end.choice->tuned_tasks, "task") + " run tuned schedules";
  }
  return saved;
}

std::string WhyEnded(const TuneReport& report, const TuneOptions& options) {
  if (report.trials >= options.trials) return "";
  const std::string ended = "the search ended after " + CountText(report.trials, "trial") + ": ";
  if (report.out_of_time) return ended + "it reached its limit of time";
  int64_t exhausted = 0, at_peak = 0;
  for (const TaskReport& task : report.tasks) {
    exhausted += task.exhausted;
    at_peak += task.at_roofline && !task.exhausted;
  }
  std::string why;
  if (exhausted > 0) why += CountText(exhausted, "task") + (exhausted == 1 ? " has" : " have") + " no other schedule";
  if (at_peak > 0)
    why += (why.empty() ? "" : ", ") + CountText(at_peak, "task") + (at_peak == 1 ? " runs" : " run") +
           " at the machine's peak";
  return why.empty() ? "" : ended + why;
}

}  // namespace autotune
