// TaskState: what a tuning run knows of one task: its default schedule, every candidate that was tried, and the best
// one. It is a function of the run's records and of the known schedules, in their order: a run that goes on with its
// records decides as if it had never stopped. Not thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "records/record.h"
#include "tuner/confirm.h"
#include "tuner/machine_state.h"
#include "tuner/task_scheduler.h"
#include "tuner/tune.h"

namespace autotune {

// Facts of a record that a resumed run needs.
inline constexpr std::string_view kRoundFact = "round";                  // number of the batch, from 0
inline constexpr std::string_view kReferenceFact = "reference_seconds";  // Outcome::reference_seconds
// Hashes of the tasks that were found exhausted when the round was planned; in its first record.
inline constexpr std::string_view kExhaustedFact = "exhausted";

class TaskState {
 public:
  // `make_search`, if given, replaces the strategy of `search`.
  TaskState(TaskSpace space, uint64_t seed, SearchKind search, SearchFactory make_search = nullptr);
  TaskState(const TaskState&) = delete;

  const TaskSpace& space() const { return space_; }
  TaskReport& report() { return report_; }
  const TaskReport& report() const { return report_; }

  // The candidate that a stored schedule stands for; nothing if it comes from another space (older rules).
  std::optional<Proposal> Find(const Record& record) const;

  // The default candidate to measure next: the first one that is not known to fail. None once one has run, or all have
  // failed.
  std::optional<Proposal> NextDefault() const;
  bool HasDefault() const { return default_.has_value(); }
  const Proposal& Default() const { return *default_; }

  // Up to n candidates to measure next, the default ones left out. Not const: none left makes the task exhausted.
  std::vector<Proposal> Propose(int n, const CostModel* model, const MachineState& machine);

  // A schedule of another run, to start from.
  void Know(const Proposal& proposal, const Record& record);
  // A record of this run that is no confirmation; `proposal` as Find(record) has it. Adds to samples().
  void Absorb(const Record& record, const std::optional<Proposal>& proposal, const MachineState& machine);
  // One outcome of a confirmation of this run.
  void AbsorbConfirmation(const Record& record);

  // What was absorbed since the samples were last taken, for the cost model.
  std::vector<Sample> TakeSamples() { return std::exchange(samples_, {}); }

  // Best time of all that ran, in the machine's usual state; 0: nothing ran.
  double BestSeconds(const MachineState& machine) const;
  TaskProgress Progress(const MachineState& machine, const MachinePeak& peak, double rate) const;

  // The best candidates that were measured in an unusual state of the machine, at most two, near enough to the best to
  // win. They are worth a second measurement, once.
  std::vector<Proposal> Doubtful(const MachineState& machine) const;

  // The candidates for the final comparison, the incumbent first: the confirmed champion, else the default schedule.
  // Then the database's best, the default schedule, and, best first, what may be faster than the incumbent. Beside a
  // champion the best of this run always takes part. Fewer than two if there is nothing to compare. `champion`: the
  // best record of the database.
  std::vector<Finalist> Finalists(const std::optional<Record>& champion, const MachineState& machine) const;
  void Confirmed() { unconfirmed_ = false; }

 private:
  struct Entry {
    Proposal proposal;
    TrialStatus status = TrialStatus::kOk;
    double seconds = 0;  // 0: it failed, or it was cut off
    double bound = 0;    // seconds that one call takes at the least, if it was cut off
    double reference_seconds = 0;
    bool ours = false;  // of this run
    bool measured_again = false;
  };

  std::optional<Proposal> Champion(const Record& record) const;
  // Is it the default schedule, or a candidate for it?
  bool AbsorbDefault(const Proposal& proposal, const Record& record);
  void AddSample(const Proposal& proposal, double seconds, const Record& record);
  // What tells candidates apart: equal traces may belong to several alternatives.
  std::string KeyOf(const Proposal& proposal) const;

  TaskSpace space_;
  uint64_t seed_;
  SearchKind search_;
  SearchFactory make_search_;
  TaskReport report_;
  std::vector<Proposal> candidates_;  // for the default schedule, in their order
  std::vector<std::string> candidate_traces_;
  size_t next_candidate_ = 0;
  std::optional<Proposal> default_;
  std::vector<Entry> entries_;                      // known ones first, then in the order measured
  std::unordered_map<std::string, size_t> places_;  // in `entries_`, by KeyOf
  std::vector<Sample> samples_;
  int64_t confirmation_ = 0;  // the last one of this run
  bool unconfirmed_ = false;  // a good trial came after the last confirmation
};

}  // namespace autotune
