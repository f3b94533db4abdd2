// TuneRun: a tuning run of a network, from its start to the written package. It opens the model, its target, the
// database and the devices, searches, compares whole networks, and writes the result. A thread of its own does all
// this; the caller pulls events (service/events.h) and may ask it to stop. It prints nothing, handles no signals and
// keeps no state of the process, so several runs may be in progress at once; their measurements take turns on this
// host. Not a scheduler: one run, one network.
//
//     std::unique_ptr<TuneRun> run = TRY(TuneRun::Start({.model = {.model = "m.onnx"}, .output = "m.tar"}));
//     while (std::optional<event::Any> event = run->NextEvent()) Show(*event);
//     TuneEnd end = TRY(run->Finish());
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "rpc/tracker_choice.h"
#include "service/events.h"
#include "service/model.h"
#include "support/result.h"
#include "tuner/span.h"

namespace autotune {

// What to tune, where, and for how long.
struct TuneRequest {
  static constexpr int kTrials = 400;  // without `trials` and `time_budget`
  static constexpr char kPluginDeadline[] = "60s";

  ModelRequest model;
  std::optional<int> trials = {};  // candidates to measure, over all tasks; empty: kTrials, or as many as time allows
  int trials_per_task = 0;         // replaces `trials`; 0: not given
  std::string time_budget = {};    // "90s", "10m", "2h"; empty: no limit
  std::string tasks = {};          // patterns of the tasks to tune (SelectTasks); empty: all
  rpc::TrackerChoice tracker = {};
  std::string key = {};  // devices of a farm; empty, and no tracker given: this machine
  uint64_t seed = 0;
  int seeds = 1;                     // runs, with the seeds from `seed` on; only for a recorded device
  std::string search = "evolution";  // a name of SearchKind
  // Shell commands of plug-ins (docs/plugins.md), of which one at most is given: the first chooses the candidates, the
  // second scores those of our own search. Empty: none.
  std::string strategy = {}, cost_model = {};
  std::string plugin_deadline = kPluginDeadline;  // for each of their answers: "500s", "2m"
  bool fresh = false;                             // begin a new run, even if there is one to resume
  std::string output = {};                        // the package to write: M.tar or M.so; empty: none

  SpanObserver on_span = nullptr;  // hears what the tuner does and when; null: nobody
  std::string resume_words = {};   // further options of the command that goes on, for texts: " --http 127.0.0.1:0"

  // Returns the number of candidates to measure, for this number of tasks; kUnlimitedTrials: until the time is over.
  int TrialsFor(size_t tasks) const;
  bool OnFarm() const { return tracker.Given() || !key.empty(); }
  // Returns an error if the parts do not go together, or a text is wrong. Opens nothing.
  Status Check() const;
};

// How far a run is. Results are safe in the database at any time: a stop or the end of the process loses the running
// batch at most.
enum class TuneStage {
  kOpening,    // nothing is measured yet
  kSearching,  // search and final choice; a stop keeps what complete batches have measured
  kWriting,    // all results are stored; the package is being written
};

enum class TuneEnd { kDone, kInterrupted };

class TuneRun {
 public:
  // Checks the request and starts the run. Errors that need a look at the model, the database or a device are those of
  // Finish.
  static Result<std::unique_ptr<TuneRun>> Start(TuneRequest request);
  ~TuneRun();  // as Cancel, and waits for the end
  TuneRun(const TuneRun&) = delete;

  // Returns the next event. Waits for it, for `seconds` at most if they are given. Returns nothing when that time is
  // over, or when the run has ended and all its events are taken (has_ended tells).
  std::optional<event::Any> NextEvent(std::optional<double> seconds = {});
  bool has_ended() const;  // and all its events are taken

  // Asks the run to stop, and returns at once. The running candidate is finished, complete batches are kept, and the
  // same request goes on there. Once the package is being written, this has no effect.
  void Cancel();
  // For a process that is about to end: gives a device of a farm back, for which the run waits or which it has got
  // before the search. The run does not go on.
  void Abandon();

  TuneStage stage() const;
  // The texts for a process that ends in this stage without waiting for the run: what is lost, and how to go on.
  std::string EndedAtOnceText() const;

  // Waits for the end of the run, and drops the events that are left. Returns its error, if it has failed.
  Result<TuneEnd> Finish();

 private:
  class Impl;
  explicit TuneRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
