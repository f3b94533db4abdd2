// The events of a tuning run, as plain values: its plan, its state, its results. A run emits Step and Precisions, if it
// chooses precisions, then Begin, then Round, Confirmed and Choosing, then End and Saved; after a request to stop,
// Interrupted instead of what is left. Waiting and Note come at any time; a command may add Trace at the end. Each
// struct declares its fields once. `autotune --json`, the C library and the Python package show them as they are
// (docs/cli.md), so their names and units stay as they are. A time or a speed that was not measured is empty.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "service/precisions.h"
#include "support/fields.h"

namespace autotune::event {

// The plan of the run.
struct Begin {
  static constexpr std::string_view kName = "begin";
  std::string model, machine;            // the network's name; the target in words
  std::string target;                    // the target in full
  std::string key, tracker;              // the devices of a farm; empty: this machine
  double gflop = 0;                      // operations of one run of the tuned tasks, in 10^9
  int64_t tasks = 0, network_tasks = 0;  // tasks to tune; tasks of the network
  int64_t trials = 0;                    // 0: until the time is over
  double time_budget = 0;                // seconds; 0: no limit
  int64_t seeds = 1;                     // runs, each with a seed of its own and an End; 1 unless it is recorded
  std::string final_step;                // what follows the search: "choice", "confirmation" or ""
  AUTOTUNE_FIELDS(model, machine, target, key, tracker, gflop, tasks, network_tasks, trials, time_budget, seeds,
                  final_step)
};

// The word for the host in Waiting::what.
inline constexpr char kThisHost[] = "this host";

// The run waits. An empty reason ends the wait.
struct Waiting {
  static constexpr std::string_view kName = "waiting";
  std::string what;  // "a device" or kThisHost
  std::string reason;
  double seconds = 0;  // how long it has waited
  AUTOTUNE_FIELDS(what, reason, seconds)
};

// A step before the search: calibration and the choice of precisions.
struct Step {
  static constexpr std::string_view kName = "step";
  std::string step;
  int64_t done = 0, total = 0;  // its parts; a total of 0: the step has begun, and has no parts
  AUTOTUNE_FIELDS(step, done, total)
};

// The precision of each product is chosen.
struct Precisions {
  static constexpr std::string_view kName = "precisions";
  PrecisionChoice choice;
  bool known = false;  // it was chosen before, for the same model, inputs, bound and target
  AUTOTUNE_FIELDS(choice, known)
};

// The state of the run after a round of candidates.
struct Round {
  static constexpr std::string_view kName = "round";
  int64_t trials = 0, planned_trials = 0, resumed_trials = 0;
  int64_t records = 0;                      // candidates so far, with those that failed before they ran
  std::map<std::string, int64_t> outcomes;  // their number by outcome; their sum is `records`
  double seconds = 0;                       // time of this process
  std::optional<double> trials_per_second;
  std::optional<double> seconds_left;  // estimate for the search; empty: unknown
  int64_t tasks = 0, tasks_measured = 0;
  std::optional<double> best_ms;  // sum of time x calls over the measured tasks
  std::string task, hash;         // the task with the most candidates in the round
  std::optional<double> task_best_ms;
  AUTOTUNE_FIELDS(trials, planned_trials, resumed_trials, records, outcomes, seconds, trials_per_second, seconds_left,
                  tasks, tasks_measured, best_ms, task, hash, task_best_ms)
};

// The best candidates of one more task were measured again, in turns.
struct Confirmed {
  static constexpr std::string_view kName = "confirmed";
  int64_t tasks = 0, planned_tasks = 0;  // confirmed so far; to confirm
  Round round;                           // the state of the run
  AUTOTUNE_FIELDS(tasks, planned_tasks, round)
};

// The progress of the final choice among whole networks.
struct Choosing {
  static constexpr std::string_view kName = "choosing";
  double done = 0;  // 0 to 1
  AUTOTUNE_FIELDS(done)
};

struct Note {
  static constexpr std::string_view kName = "note";
  std::string text;
  AUTOTUNE_FIELDS(text)
};

// A row of the table of tasks.
struct Task {
  std::string task, hash;
  int64_t weight = 0;  // calls in one run of the network
  double gflop = 0;    // operations of one call, in 10^9
  int64_t trials = 0;
  std::optional<double> default_ms, tuned_ms;  // one call, by the default schedule and by the best one
  std::optional<double> share;                 // of the sum of time x calls over all tasks
  std::optional<double> gflops, peak_share;    // speed of the best schedule; its share of the machine's peak
  std::optional<double> best_known_ms;         // a recorded device: its best recorded schedule
  bool keeps_default = false;                  // the best schedule is the default one
  bool only_schedule = false;                  // the task has no other schedule than the default one
  bool network_differs = false;                // the network runs another schedule than the best one of the task alone
  bool winograd = false;                       // the best schedule is of Winograd's algorithm
  bool failed = false;                         // candidates were tried, and none worked
  AUTOTUNE_FIELDS(task, hash, weight, gflop, trials, default_ms, tuned_ms, share, gflops, peak_share, best_known_ms,
                  keeps_default, only_schedule, network_differs, winograd, failed)
};

// The whole network at one number of threads, with and without the tuned schedules.
struct Comparison {
  int64_t threads = 0;
  double untuned_ms = 0, tuned_ms = 0;
  double speedup = 1, speedup_low = 1, speedup_high = 1;  // untuned / tuned; its interval of 95 %
  AUTOTUNE_FIELDS(threads, untuned_ms, tuned_ms, speedup, speedup_low, speedup_high)
};

// The final choice for the network.
struct Choice {
  bool kept_defaults = false, kept_previous = false, same_schedules = false, undisturbed = true;
  int64_t tuned_tasks = 0;  // tasks that run a tuned schedule
  double seconds = 0;
  std::vector<Comparison> comparisons;
  std::vector<std::string> sentences;  // the same for people, a line each
  AUTOTUNE_FIELDS(kept_defaults, kept_previous, same_schedules, undisturbed, tuned_tasks, seconds, comparisons,
                  sentences)
};

// The result of the search.
struct End {
  static constexpr std::string_view kName = "end";
  int64_t trials = 0, resumed_trials = 0, records = 0;
  std::map<std::string, int64_t> outcomes;
  std::map<std::string, std::string> first_errors;  // by outcome: why the first such candidate failed
  double seconds = 0, search_seconds = 0, measure_seconds = 0;
  std::string why_ended;              // why the search ended before it had used its trials; empty: it used them
  bool alone = false;                 // an operator without a network: its weights come from memory
  bool gpu = false;                   // measured on a GPU, whose caches keep the weights between calls
  std::optional<double> kernels_ms;   // sum of time x calls over the measured tasks
  std::optional<double> peak_gflops;  // multiply-adds on registers, on all cores; empty: unknown
  int64_t seed = 0;                   // of the run
  std::optional<double> reached;      // a recorded device: speed over the best known one; geometric mean over the tasks
  std::vector<Task> tasks;            // by their time in the network, the longest first
  std::optional<Choice> choice;       // empty: each task gets its best record
  AUTOTUNE_FIELDS(trials, resumed_trials, records, outcomes, first_errors, seconds, search_seconds, measure_seconds,
                  why_ended, alone, gpu, kernels_ms, peak_gflops, seed, reached, tasks, choice)
};

// The run has ended. What was gained, and where it is.
struct Saved {
  static constexpr std::string_view kName = "saved";
  std::string gain;               // one sentence
  bool faster = false;            // the network is faster than before
  std::string package;            // the file of -o; empty: none
  std::string database;           // empty: in memory, so nothing is kept
  std::vector<std::string> next;  // commands to go on with
  AUTOTUNE_FIELDS(gain, faster, package, database, next)
};

// A request to stop, such as a signal, has ended the run.
struct Interrupted {
  static constexpr std::string_view kName = "interrupted";
  int64_t trials = 0, planned_trials = 0;
  // The command that goes on. Empty: there is none, since the database is in memory, so that the trials are lost, or
  // since the model was given as bytes.
  std::string resume;
  AUTOTUNE_FIELDS(trials, planned_trials, resume)
};

// The command has written its trace, a file of Chrome's trace events.
struct Trace {
  static constexpr std::string_view kName = "trace";
  std::string file;
  AUTOTUNE_FIELDS(file)
};

using Any =
    std::variant<Begin, Waiting, Step, Precisions, Round, Confirmed, Choosing, Note, End, Saved, Interrupted, Trace>;

}  // namespace autotune::event

namespace autotune {

// Receives the events of a run. Called by any thread, by several at once.
using EventSink = std::function<void(const event::Any&)>;

}  // namespace autotune
