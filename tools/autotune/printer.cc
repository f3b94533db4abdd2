#include "tools/autotune/printer.h"

#include <cstdio>
#include <mutex>

#include "service/event_json.h"
#include "support/clock.h"
#include "support/terminal.h"
#include "support/trial.h"
#include "tools/autotune/precision_table.h"
#include "tools/autotune/step_line.h"
#include "tools/autotune/task_table.h"
#include "tools/autotune/text.h"
#include "tools/autotune/waits.h"

namespace autotune::tools {
namespace {

constexpr double kLineEvery = 10;  // seconds between lines of status where there is no live line

std::string InterruptedText(const event::Interrupted& e) {
  if (e.resume.empty()) return "interrupted; the trials are lost, since the database is in memory";
  return "interrupted; " +
         (e.planned_trials ? std::to_string(e.trials) + " of " + std::to_string(e.planned_trials)
                           : std::to_string(e.trials)) +
         " trials are saved. Go on with:\n  " + e.resume;
}

class JsonPrinter : public EventPrinter {
 public:
  explicit JsonPrinter(Console& console) : console_(console) {}

  void Print(const event::Any& event) override {
    std::lock_guard lock(mutex_);
    std::visit([this](const auto& e) { On(e); }, event);
  }

 private:
  template <class Event>
  void Line(const Event& e) {
    console_.Result(EventJson(e));
  }
  template <class Event>
  void On(const Event& e) {
    Line(e);
  }
  void On(const event::Waiting& e) {
    if (!e.reason.empty() && waits_.IsDue(e.what, e.reason)) Line(e);
  }
  void On(const event::Note& e) {
    Line(e);
    console_.ShowNote(e.text);
  }
  void On(const event::Interrupted& e) {
    Line(e);
    console_.Alert(InterruptedText(e));
  }

  Console& console_;
  std::mutex mutex_;
  WaitLines waits_;
};

class HumanPrinter : public EventPrinter {
 public:
  HumanPrinter(Console& console, PrinterOptions options) : console_(console), options_(options) {}

  void Print(const event::Any& event) override {
    std::lock_guard lock(mutex_);
    std::visit([this](const auto& e) { On(e); }, event);
  }

 private:
  void On(const event::Begin& e) {
    begin_ = e;
    const std::string part = e.tasks < e.network_tasks
                                 ? std::to_string(e.tasks) + " of " + CountText(e.network_tasks, "task")
                                 : CountText(e.tasks, "task");
    const std::string where = e.key.empty() ? "" : ", on `" + e.key + "` of " + e.tracker;
    const std::string time = e.time_budget > 0 ? DurationText(e.time_budget) : "";
    const std::string limit = e.trials == 0  ? "as many trials as " + time + " allow"
                              : time.empty() ? CountText(e.trials, "trial")
                                             : CountText(e.trials, "trial") + ", at most " + time;
    console_.Status("tuning " + e.model + Format(" (%.4g GFLOP, ", e.gflop) + part + ") for " + e.machine + where +
                    ": " + limit);
    if (options_.verbose) console_.Status("target: " + e.target);
  }

  void On(const event::Waiting& e) {
    if (e.reason.empty()) return console_.Live("");
    const std::string text = WaitText(e.what, BootMillis() - static_cast<int64_t>(e.seconds * 1e3), e.reason);
    if (console_.HasLive()) {
      console_.Live(text);
    } else if (waits_.IsDue(e.what, e.reason)) {
      console_.Status(text);
    }
  }

  // The numbers that change come first, since a narrow terminal shows only the begin of the line.
  std::string Line(const event::Round& e, const std::string& end) const {
    std::string line = e.planned_trials ? std::to_string(e.trials) + "/" + CountText(e.planned_trials, "trial")
                                        : CountText(e.trials, "trial");
    if (e.best_ms) line += "  kernels " + TimeText(*e.best_ms / 1e3);
    if (e.best_ms && e.tasks_measured < e.tasks) line += Format(" (%d of %d tasks)", e.tasks_measured, e.tasks);
    return line + end;
  }
  std::string Speed(const event::Round& e) const {
    std::string text;
    if (e.trials_per_second) text += Format("  %.1f trials/s", *e.trials_per_second);
    if (e.seconds_left && *e.seconds_left > 0) {
      text += "  ETA " + DurationText(*e.seconds_left);
      if (begin_.final_step == "choice") text += " + final choice";
      if (begin_.final_step == "confirmation") text += " + confirmation of the best";
    }
    return text;
  }

  void On(const event::Round& e) {
    if (!last_ && e.resumed_trials > 0)
      console_.Status("resumed: " + CountText(e.resumed_trials, "trial") + " from earlier runs of this command");
    last_ = e;
    Progress(e, Line(e, Speed(e)));
  }
  void On(const event::Confirmed& e) {
    last_ = e.round;
    Progress(e.round, Line(e.round, Format("  tasks confirmed %d/%d", e.tasks, e.planned_tasks)));
  }
  void Progress(const event::Round& e, const std::string& line) {
    if (console_.HasLive()) return console_.Live(line + "  " + e.task);
    if (e.seconds - last_line_ < kLineEvery) return;
    last_line_ = e.seconds;
    console_.Status(line);
  }

  void On(const event::Step& e) { step_.Tell(e.step, e.done, e.total); }
  void On(const event::Precisions& e) {
    console_.Live("");
    console_.Result(PrecisionTable(e, options_.wide ? 0 : console_.WidthOut()));
  }

  void On(const event::Choosing& e) {
    console_.Live(Format("%3.0f %%  comparing tuned and untuned schedules in the network", 100 * e.done));
  }

  void On(const event::Note& e) { console_.Note(e.text); }

  // Says what became of candidates without a time. Candidates that are skipped or cut off are normal.
  void Failures(const event::End& e) {
    for (const auto& [name, count] : e.outcomes) {
      if (name == ToText(TrialStatus::kOk) || count == 0) continue;
      auto first = e.first_errors.find(name);
      const std::string cause = first == e.first_errors.end() ? "" : "; the first: " + first->second;
      const std::string of_all = std::to_string(count) + " of " + CountText(e.records, "candidate");
      const std::string were = of_all + (count == 1 ? " was " : " were ");
      if (name == ToText(TrialStatus::kRejected)) {
        console_.Status(were +
                        "skipped: mostly, their tiles exceed the registers or shared memory of the device (normal)" +
                        (options_.verbose ? cause : ""));
      } else if (name == ToText(TrialStatus::kCutOff)) {
        console_.Status(were + "cut off: much slower than the best so far (normal)");
      } else {
        console_.Note(of_all + " failed, " + name + cause);
      }
    }
  }

  void On(const event::End& e) {
    console_.Live("");
    if (begin_.seeds > 1) {
      return console_.Result("seed " + std::to_string(e.seed) + ": " + CountText(e.trials, "trial") +
                             Format(", %.1f %% of the best recorded speed\n", 100 * e.reached.value_or(0)));
    }
    if (last_) console_.Status(Line(*last_, ""));
    Failures(e);
    const int width = console_.WidthOut();
    auto sentence = [&](const std::string& words) { return words.empty() ? "" : WrapWords(words, width) + "\n"; };
    std::string text =
        "\n" + TaskTable(e, {.width = options_.wide ? 0 : width, .colours = console_.colours_out()}) + "\n";
    const int64_t here = e.trials - e.resumed_trials;
    if (here == 0 && e.trials > 0) {
      text += sentence(CountText(e.trials, "trial") +
                       ", all measured by earlier runs of this command; --fresh measures anew");
    } else {
      text += sentence(CountText(here, "trial") + " in " + DurationText(e.seconds) +
                       Format(" (%.1f/s; search ", e.seconds > 0 ? static_cast<double>(here) / e.seconds : 0.0) +
                       DurationText(e.search_seconds) + ", build and measure " + DurationText(e.measure_seconds) + ")");
      if (e.resumed_trials > 0)
        text += sentence(CountText(e.resumed_trials, "trial") + " more from earlier runs of this command");
    }
    text += sentence(e.why_ended);
    if (e.choice) {
      for (const std::string& line : e.choice->sentences) text += sentence(line);
    }
    console_.Result(text);
  }

  void On(const event::Saved& e) {
    for (const std::string& command : e.next) console_.Command(command);
    std::string where = e.package.empty() ? "" : "; saved in " + e.package;
    if (!e.database.empty()) where += (where.empty() ? "; records saved in " : ", records in ") + e.database;
    if (where.empty()) where = "; nothing is saved";
    const std::string line = WrapWords(e.gain + where, console_.WidthOut());
    console_.Result((e.faster ? Painted(line, Colour::kGain, console_.colours_out()) : line) + "\n");
  }

  void On(const event::Interrupted& e) { console_.Alert(InterruptedText(e)); }

  void On(const event::Trace& e) {
    console_.Report("wrote " + e.file + ", which https://ui.perfetto.dev and https://speedscope.app open\n");
  }

  Console& console_;
  const PrinterOptions options_;
  std::mutex mutex_;
  WaitLines waits_;
  StepLine step_;
  event::Begin begin_;
  std::optional<event::Round> last_;
  double last_line_ = 0;  // Round::seconds of the last line of status
};

}  // namespace

std::unique_ptr<EventPrinter> MakeEventPrinter(Console& console, PrinterOptions options) {
  if (console.json()) return std::make_unique<JsonPrinter>(console);
  return std::make_unique<HumanPrinter>(console, options);
}

}  // namespace autotune::tools
