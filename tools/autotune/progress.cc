#include "tools/autotune/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "support/json.h"

namespace autotune::tools {
namespace {

constexpr double kSecondsPerTrial = 0.15;  // for the first estimate only
constexpr double kLineEvery = 10;          // seconds between plain lines

std::string Duration(double seconds) {
  long s = static_cast<long>(seconds + 0.5);
  char text[32];
  if (s < 60) {
    std::snprintf(text, sizeof text, "%lds", s);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%ldm%02lds", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ldh%02ldm", s / 3600, s / 60 % 60);
  }
  return text;
}

// What the network takes with the best schedules so far, in ms; tasks without one are left out.
double BestMs(const TuneReport& report) {
  double ms = 0;
  for (const TaskReport& task : report.tasks) ms += task.best_seconds * 1e3 * task.task->weight;
  return ms;
}

std::map<TrialStatus, int> FailuresByStatus(const TuneReport& report) {
  std::map<TrialStatus, int> total;
  for (const TaskReport& task : report.tasks) {
    for (const auto& [status, count] : task.failures) total[status] += count;
  }
  return total;
}

// What became of every candidate of the run: `records` is the sum of `outcomes`.
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
  for (const auto& [status, count] : FailuresByStatus(report))
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(ToText(status));
  return text;
}

}  // namespace

Progress::Progress(const Network& network, const Target& target, const TuneOptions& options, bool json)
    : network_(network), target_(target), options_(options), json_(json), terminal_(!json && isatty(1)) {}

void Progress::Begin(const std::string& where) {
  if (json_) {
    Json line;
    line["event"] = "begin";
    line["model"] = network_.name;
    line["target"] = target_.Text();
    line["tasks"] = static_cast<int64_t>(network_.tasks.size());
    line["trials"] = options_.trials;
    std::printf("%s\n", line.Dump().c_str());
    std::fflush(stdout);
    return;
  }
  for (const std::string& note : network_.notes) std::printf("note: %s\n", note.c_str());
  double estimate = options_.trials * kSecondsPerTrial;
  if (options_.time_budget > 0) estimate = std::min(estimate, options_.time_budget);
  std::printf("tuning %s (%.2f GFLOP, %zu tasks) for %s on %s: %d trials, about %s\n", network_.name.c_str(),
              network_.flops / 1e9, network_.tasks.size(), target_.Text().c_str(), where.c_str(), options_.trials,
              Duration(estimate).c_str());
  std::fflush(stdout);
}

std::string Progress::Line(const TuneReport& report) const {
  int here = report.trials - report.resumed_trials;
  double rate = report.seconds > 0 ? here / report.seconds : 0;
  double eta = rate > 0 ? std::max(0, options_.trials - report.trials) / rate : 0;
  if (options_.time_budget > 0) eta = std::min(eta, std::max(0.0, options_.time_budget - report.seconds));
  char text[256];
  std::snprintf(text, sizeof text, "%d/%d trials  best %.3f ms  %.1f trials/s  ETA %s", report.trials, options_.trials,
                BestMs(report), rate, Duration(eta).c_str());
  if (report.to_confirm > 0) {
    std::snprintf(text, sizeof text, "%d/%d trials  best %.3f ms  tasks confirmed %d/%d", report.trials,
                  options_.trials, BestMs(report), report.confirmed, report.to_confirm);
  }
  std::string failures = Failures(report);
  return failures.empty() ? text : text + ("  (" + failures + ")");
}

void Progress::Update(const TuneReport& so_far, const TaskReport& current) {
  if (json_) {
    Json line;
    line["event"] = so_far.to_confirm > 0 ? "confirmed" : "round";
    line["trials"] = so_far.trials;
    AddOutcomes(so_far, line);
    line["seconds"] = so_far.seconds;
    line["task"] = current.task->label;
    line["task_best_ms"] = current.best_seconds * 1e3;
    line["best_ms"] = BestMs(so_far);
    std::printf("%s\n", line.Dump().c_str());
    std::fflush(stdout);
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
  if (json_) return;
  std::printf("%s%s\n", terminal_ ? "\r\033[K" : "", Line(report).c_str());
  for (const auto& [status, text] : report.first_error)
    std::printf("first '%s': %s\n", std::string(ToText(status)).c_str(), text.c_str());
  std::fflush(stdout);
}

void Progress::Summary(const TuneReport& report, std::optional<double> before_ms, std::optional<double> after_ms,
                       std::optional<double> peak_flops) const {
  if (json_) {
    Json line;
    line["event"] = "end";
    line["trials"] = report.trials;
    AddOutcomes(report, line);
    line["seconds"] = report.seconds;
    line["before_ms"] = before_ms ? Json(*before_ms) : Json();
    line["after_ms"] = after_ms ? Json(*after_ms) : Json();
    Json::Array tasks;
    for (const TaskReport& task : report.tasks) {
      Json row;
      row["task"] = task.task->label;
      row["hash"] = task.task->hash.Hex();
      row["weight"] = task.task->weight;
      row["default_ms"] = task.default_seconds * 1e3;
      row["tuned_ms"] = task.best_seconds * 1e3;
      row["trials"] = task.trials;
      tasks.push_back(row);
    }
    line["tasks"] = tasks;
    std::printf("%s\n", line.Dump().c_str());
    return;
  }
  size_t width = 4;
  for (const TaskReport& task : report.tasks) width = std::max(width, task.task->label.size());
  std::printf("\n%-*s %6s %11s %10s %8s %6s %7s\n", static_cast<int>(width), "task", "weight", "default ms", "tuned ms",
              "GFLOPS", "% peak", "trials");
  for (const TaskReport& task : report.tasks) {
    std::printf("%-*s %6d ", static_cast<int>(width), task.task->label.c_str(), task.task->weight);
    if (task.default_seconds > 0) {
      std::printf("%11.4f ", task.default_seconds * 1e3);
    } else {
      std::printf("%11s ", "-");
    }
    if (task.best_seconds > 0) {
      std::printf("%10.4f %8.1f", task.best_seconds * 1e3, task.task->flops / task.best_seconds / 1e9);
    } else {
      std::printf("%10s %8s", "-", "-");
    }
    if (task.best_seconds > 0 && task.task->flops > 0 && peak_flops) {
      std::printf(" %6.1f", 100 * task.task->flops / task.best_seconds / *peak_flops);
    } else {
      std::printf(" %6s", "-");
    }
    std::printf(" %7d\n", task.trials);
  }
  std::printf("\n%d trials in %s (%.1f/s; search %s, build and measure %s)\n", report.trials,
              Duration(report.seconds).c_str(),
              report.seconds > 0 ? (report.trials - report.resumed_trials) / report.seconds : 0.0,
              Duration(report.search_seconds).c_str(), Duration(report.measure_seconds).c_str());
  if (before_ms && after_ms)
    std::printf("latency: %.3f ms untuned, %.3f ms tuned (%.2f times as fast)\n", *before_ms, *after_ms,
                *before_ms / *after_ms);
}

void Progress::NextSteps(const std::string& package, const std::string& compile) const {
  if (json_) return;
  if (package.empty()) {
    std::printf("compile it:  %s\n", compile.c_str());
    return;
  }
  std::printf("run it:      autotune run %s\nmeasure it:  autotune bench %s --threads %d\n", package.c_str(),
              package.c_str(), target_.num_cores);
}

}  // namespace autotune::tools
