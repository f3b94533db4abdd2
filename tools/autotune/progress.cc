#include "tools/autotune/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "support/clock.h"
#include "support/json.h"
#include "support/task_id.h"
#include "tools/autotune/choice_report.h"
#include "tools/autotune/host.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

constexpr double kLineEvery = 10;  // seconds between plain lines

// The time of all kernel calls of the network with the best schedules so far. Tasks without a measured schedule are
// left out.
struct KernelSum {
  double ms = 0;
  size_t tasks = 0;  // number of tasks in the sum
};

KernelSum SumOf(const TuneReport& report) {
  KernelSum sum;
  for (const TaskReport& task : report.tasks) {
    sum.ms += task.best_seconds * 1e3 * task.task->weight;
    sum.tasks += task.best_seconds > 0;
  }
  return sum;
}

// Returns milliseconds, or null if nothing was measured.
Json MsOrNull(double seconds) { return seconds > 0 ? Json(seconds * 1e3) : Json(); }

std::map<TrialStatus, int> FailuresByStatus(const TuneReport& report) {
  std::map<TrialStatus, int> total;
  for (const TaskReport& task : report.tasks) {
    for (const auto& [status, count] : task.failures) total[status] += count;
  }
  return total;
}

// Adds two members: "outcomes", the number of candidates of the run by outcome, and "records", the sum of them.
void AddOutcomes(const TuneReport& report, Json& line) {
  int ok = report.records;
  Json outcomes;
  for (const auto& [status, count] : FailuresByStatus(report)) {
    outcomes[std::string(ToText(status))] = count;
    ok -= count;
  }
  outcomes["ok"] = ok;
  line["records"] = report.records;
  line["outcomes"] = std::move(outcomes);
}

std::string Failures(const TuneReport& report) {
  std::string text;
  for (const auto& [status, count] : FailuresByStatus(report)) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " +
            (status == TrialStatus::kRejected ? "skipped" : std::string(ToText(status)));
  }
  return text;
}

// Winograd's alternatives are named winograd4, winograd2_whole, ... (topi/alternatives.cc).
bool IsWinograd(const TaskReport& task) { return task.best_alternative.starts_with("winograd"); }

// Formats a value of a table: "12.3456", or "-" if nothing was measured.
std::string Cell(double value, int digits) {
  char text[32] = "-";
  if (value > 0) std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

Progress::Progress(const Network& network, const std::vector<TuneTask>& tasks, const Target& target,
                   const TuneOptions& options, ProgressOptions style)
    : network_(network),
      tasks_(tasks),
      target_(target),
      options_(options),
      style_(style),
      terminal_(!style.json && isatty(1)) {}

void Progress::PrintJson(const Json& line) const {
  std::printf("%s\n", line.Dump().c_str());
  std::fflush(stdout);
}

void Progress::Begin(const std::string& where, double time_budget) {
  if (style_.json) {
    Json line;
    line["event"] = "begin";
    line["model"] = network_.name;
    line["target"] = target_.Text();
    line["tasks"] = static_cast<int64_t>(tasks_.size());
    line["trials"] = options_.trials;
    return PrintJson(line);
  }
  for (const std::string& note : WithoutRepeats(network_.notes)) std::printf("note: %s\n", note.c_str());
  double flops = 0;
  for (const TuneTask& task : tasks_) flops += task.flops * task.weight;
  std::string part = Counted(static_cast<int64_t>(tasks_.size()), "task");
  if (tasks_.size() < network_.tasks.size())
    part = std::to_string(tasks_.size()) + " of " + Counted(static_cast<int64_t>(network_.tasks.size()), "task");
  std::string limit = time_budget > 0 ? ", at most " + DurationText(time_budget) : "";
  std::printf("tuning %s (%.4g GFLOP, %s) for %s%s: %s%s\n", network_.name.c_str(), flops / 1e9, part.c_str(),
              MachineText(target_).c_str(), where.c_str(), Counted(options_.trials, "trial").c_str(), limit.c_str());
  if (style_.verbose) std::printf("target: %s\n", target_.Text().c_str());
  std::fflush(stdout);
}

void Progress::Wait(const std::string& reason) {
  std::lock_guard lock(wait_mutex_);
  ShowWait("a device", waiting_since_ > 0 ? waiting_since_ : BootMillis(), reason);
}

void Progress::WaitForHost(const HostWait& wait) {
  std::lock_guard lock(wait_mutex_);
  ShowWait(kThisHost, wait.since, wait.reason);
}

void Progress::ShowWait(const std::string& what, int64_t since, const std::string& reason) {
  if (reason.empty()) {
    if (waiting_since_ > 0 && terminal_) std::printf("\r\033[K");
    waiting_since_ = 0;
    return;
  }
  waiting_since_ = since;
  if (terminal_) {
    std::printf("\r\033[K%s", WaitText(what, since, reason).c_str());
    std::fflush(stdout);
    return;
  }
  if (!wait_lines_.IsDue(what)) return;
  if (!style_.json) {
    std::printf("%s\n", WaitText(what, since, reason).c_str());
    std::fflush(stdout);
    return;
  }
  Json line;
  line["event"] = "waiting";
  line["seconds"] = static_cast<double>(BootMillis() - since) / 1e3;
  line["reason"] = reason;
  PrintJson(line);
}

std::string Progress::Line(const TuneReport& report) const {
  const KernelSum sum = SumOf(report);
  char text[64];
  std::snprintf(text, sizeof text, "%d/%d trials", report.trials, options_.trials);
  std::string line = text;
  if (sum.tasks > 0) line += "  kernels " + Cell(sum.ms, 3) + " ms";
  if (sum.tasks > 0 && sum.tasks < report.tasks.size())
    line += " (" + std::to_string(sum.tasks) + " of " + std::to_string(report.tasks.size()) + " tasks)";
  const int here = report.trials - report.resumed_trials;
  if (report.to_confirm > 0) {
    line += "  tasks confirmed " + std::to_string(report.confirmed) + "/" + std::to_string(report.to_confirm);
  } else if (here > 0 && report.seconds > 0) {
    const double rate = here / report.seconds;
    double left = std::max(0, options_.trials - report.trials) / rate;
    if (options_.time_budget > 0) left = std::min(left, std::max(0.0, options_.time_budget - report.seconds));
    std::snprintf(text, sizeof text, "  %.1f trials/s", rate);
    line += text;
    if (left > 0) line += "  ETA " + DurationText(left);
    if (left > 0 && (style_.chooses || options_.confirm))
      line += style_.chooses ? " + final choice" : " + confirmation of the best";
  }
  std::string failures = Failures(report);
  return failures.empty() ? line : line + "  (" + failures + ")";
}

void Progress::Update(const TuneReport& so_far, const TaskReport& current) {
  if (style_.json) {
    Json line;
    line["event"] = so_far.to_confirm > 0 ? "confirmed" : "round";
    line["trials"] = so_far.trials;
    AddOutcomes(so_far, line);
    line["seconds"] = so_far.seconds;
    line["task"] = current.task->label;
    line["hash"] = current.task->hash.Hex();
    line["task_best_ms"] = MsOrNull(current.best_seconds);
    line["best_ms"] = MsOrNull(SumOf(so_far).ms / 1e3);
    PrintJson(line);
  } else if (terminal_) {
    std::printf("\r\033[K%s  %s", Line(so_far).c_str(), current.task->label.c_str());
    std::fflush(stdout);
  } else if (so_far.seconds - last_line_ >= kLineEvery) {
    last_line_ = so_far.seconds;
    std::printf("%s\n", Line(so_far).c_str());
    std::fflush(stdout);
  }
}

void Progress::End(const TuneReport& report) {
  if (style_.json) return;
  std::printf("%s%s\n", terminal_ ? "\r\033[K" : "", Line(report).c_str());
  for (const auto& [status, count] : FailuresByStatus(report)) {
    auto first = report.first_error.find(status);
    std::string cause = first == report.first_error.end() ? "" : "; the first: " + first->second;
    if (status == TrialStatus::kRejected) {
      std::printf(
          "%d of %s skipped: mostly, their tiles exceed the registers or shared memory of the device (normal)%s\n",
          count, (Counted(report.records, "candidate") + (count == 1 ? " was" : " were")).c_str(),
          style_.verbose ? cause.c_str() : "");
    } else if (status == TrialStatus::kCutOff) {
      std::printf("%d of %s cut off: much slower than the best so far (normal)\n", count,
                  (Counted(report.records, "candidate") + (count == 1 ? " was" : " were")).c_str());
    } else {
      std::printf("%d of %s failed, %s%s\n", count, Counted(report.records, "candidate").c_str(),
                  std::string(ToText(status)).c_str(), cause.c_str());
    }
  }
  std::fflush(stdout);
}

void Progress::Choosing(double done) {
  if (!terminal_) return;
  std::printf("\r\033[Kcomparing tuned and untuned schedules in the network  %3.0f %%", 100 * done);
  std::fflush(stdout);
}

void Progress::SummaryAsJson(const TuneReport& report, const ChosenNetwork* chosen) const {
  Json line;
  line["event"] = "end";
  line["trials"] = report.trials;
  AddOutcomes(report, line);
  line["seconds"] = report.seconds;
  if (chosen) AddChoice(*chosen, line);
  Json::Array tasks;
  for (const TaskReport& task : report.tasks) {
    Json row;
    row["task"] = task.task->label;
    row["hash"] = task.task->hash.Hex();
    row["weight"] = task.task->weight;
    row["default_ms"] = MsOrNull(task.default_seconds);
    row["tuned_ms"] = MsOrNull(task.best_seconds);
    row["trials"] = task.trials;
    tasks.push_back(row);
  }
  line["tasks"] = tasks;
  PrintJson(line);
}

void Progress::Table(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const {
  std::printf("\n%-8s %6s %11s %10s  %8s %7s %7s  %s\n", "task", "weight", "default ms", "tuned ms", "GFLOPS", "% peak",
              "trials", "operators and shapes");
  bool any_winograd = false, any_other = false;
  for (const TaskReport& task : report.tasks) {
    const double flops = task.best_seconds > 0 ? task.task->flops / task.best_seconds : 0;
    const bool winograd = IsWinograd(task);
    any_winograd |= winograd;
    const ChosenSchedule* schedule = chosen ? chosen->choice.Find(task.task->hash.Hex()) : nullptr;
    const bool other = schedule && task.best_seconds > 0 && schedule->trace != task.best_trace;
    any_other |= other;
    std::printf("%-8s %6d %11s %10s%c %8s %6s%c %7d  %s\n", ShortTaskId(task.task->hash).c_str(), task.task->weight,
                Cell(task.default_seconds * 1e3, 4).c_str(), Cell(task.best_seconds * 1e3, 4).c_str(),
                other ? '=' : ' ', Cell(flops / 1e9, 1).c_str(),
                Cell(peak_flops ? 100 * flops / *peak_flops : 0, 1).c_str(), winograd ? '*' : ' ', task.trials,
                task.task->label.c_str());
  }
  const KernelSum sum = SumOf(report);
  if (sum.tasks > 0) {
    const bool alone = options_.measure.cold_bytes < 0;  // an operator without a network
    std::printf(
        "\nms: one call of the kernel alone, with weights %s. The sum of time x weight over all tasks is %.3f ms; the "
        "network may take less, since its caches are warmer\n",
        alone ? "from memory" : "as cold as the network leaves them", sum.ms);
  }
  if (any_other)
    std::printf(
        "=: the network runs another schedule of this task, since this one is not faster in the network, or is slower "
        "on "
        "one thread\n");
  if (any_winograd)
    std::printf(
        "*: a Winograd convolution; GFLOPS and %% peak count the operations of the direct algorithm, which has more\n");
}

void Progress::Summary(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const {
  if (style_.json) return SummaryAsJson(report, chosen);
  if (terminal_) std::printf("\r\033[K");
  Table(report, chosen, peak_flops);
  const int here = report.trials - report.resumed_trials;
  if (here == 0 && report.trials > 0) {
    std::printf("\n%s, all measured by earlier runs of this command; --fresh measures anew\n",
                Counted(report.trials, "trial").c_str());
  } else {
    std::printf("\n%s in %s (%.1f/s; search %s, build and measure %s)\n", Counted(here, "trial").c_str(),
                DurationText(report.seconds).c_str(), report.seconds > 0 ? here / report.seconds : 0.0,
                DurationText(report.search_seconds).c_str(), DurationText(report.measure_seconds).c_str());
    if (report.resumed_trials > 0)
      std::printf("%s more from earlier runs of this command\n", Counted(report.resumed_trials, "trial").c_str());
  }
  if (std::string why = WhyEnded(report, options_); !why.empty()) std::printf("%s\n", why.c_str());
  if (chosen) std::fputs(ChoiceText(*chosen).c_str(), stdout);
}

std::string WhyEnded(const TuneReport& report, const TuneOptions& options) {
  if (report.trials >= options.trials) return "";
  const std::string ended = "the search ended after " + Counted(report.trials, "trial") + ": ";
  if (report.out_of_time) return ended + "it reached its limit of time";
  int64_t exhausted = 0, at_peak = 0;
  for (const TaskReport& task : report.tasks) {
    exhausted += task.exhausted;
    at_peak += task.at_roofline && !task.exhausted;
  }
  std::string why;
  if (exhausted > 0) why += Counted(exhausted, "task") + (exhausted == 1 ? " has" : " have") + " no other schedule";
  if (at_peak > 0)
    why += (why.empty() ? "" : ", ") + Counted(at_peak, "task") + (at_peak == 1 ? " runs" : " run") +
           " at the machine's peak";
  return why.empty() ? "" : ended + why;
}

void Progress::NextSteps(const std::string& package, const std::string& compile) const {
  if (style_.json) return;
  if (package.empty()) {
    if (compile.empty()) {
      std::printf("nothing is saved; name a package with -o M.tar, or a database with --db FILE\n");
    } else {
      std::printf("compile it:  %s\n", compile.c_str());
    }
    return;
  }
  std::printf("run it:      autotune run %s\nmeasure it:  autotune bench %s --threads %d\n", package.c_str(),
              package.c_str(), target_.num_cores);
}

}  // namespace autotune::tools
