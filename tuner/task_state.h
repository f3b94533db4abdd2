// TaskState: the knowledge of a tuning run about one task: its default schedule, every candidate tried, and the best
// one. The state follows from the known schedules and the run's records, in their order. So a resumed run decides as if
// it had never stopped. Not thread-safe.
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
inline constexpr std::string_view kRoundFact = "round";                  // number of the round, from 0
inline constexpr std::string_view kReferenceFact = "reference_seconds";  // Outcome::reference_seconds
// MeasureOptions::cold_bytes of the measurement. A resumed run does not need it, but whoever measures the record again.
inline constexpr std::string_view kColdBytesFact = "cold_bytes";
// Hashes of the tasks that were exhausted when the round was planned. Only the first record of a round has it.
inline constexpr std::string_view kExhaustedFact = "exhausted";

// Returns the reference's time in the batch of a record, on the record's device.
ReferenceTime ReferenceOf(const Record& record);

class TaskState {
 public:
  // `make_search`, if given, replaces the strategy of `search`.
  TaskState(TaskSpace space, uint64_t seed, SearchKind search, SearchFactory make_search = nullptr);
  TaskState(const TaskState&) = delete;

  const TaskSpace& space() const { return space_; }
  TaskReport& report() { return report_; }
  const TaskReport& report() const { return report_; }

  // Returns the candidate of a stored schedule. Returns nothing if the schedule is not in this space, for example
  // because older rules made it.
  std::optional<Proposal> Find(const Record& record) const;

  // Returns the default candidate to measure next: the first one that is not known to fail. Returns nothing once one
  // has run, or all have failed.
  std::optional<Proposal> NextDefault() const;
  // Returns true if the farm has failed for all of the task's candidates in three rounds in a row, so that the task
  // must be the cause. For example, its fp64 reference takes too long. Only meaningful once the farm has worked for
  // some task.
  bool IsLost() const { return lost_rounds_ >= kMostLostRounds; }
  bool HasDefault() const { return default_.has_value(); }
  const Proposal& Default() const { return *default_; }

  // Returns up to n candidates to measure next, none of which was tried before. Marks the task as exhausted if there
  // are none. Errors: those of the search and of the model.
  Result<std::vector<Proposal>> Propose(int n, const CostModel* model, const MachineState& machine);

  // Adds a schedule of another run, for the search to start from.
  void Know(const Proposal& proposal, const Record& record);
  // Adds a record of a trial or a failed build of this run, but not of a confirmation. `proposal` is Find(record).
  void Absorb(const Record& record, const std::optional<Proposal>& proposal, const MachineState& machine);
  // Adds a record of a confirmation of this run.
  void AbsorbConfirmation(const Record& record);

  // Returns the samples for the cost model that were added since the last call.
  std::vector<Sample> TakeSamples() { return std::exchange(samples_, {}); }

  // Returns the best time of this run, converted to the machine's usual state; 0 if nothing ran. Disturbed times count
  // only if there is no other.
  double BestSeconds(const MachineState& machine) const;
  // Returns the highest rate of a schedule of this run, in operations per second that it certainly executed
  // (FewestOperations), in the machine's usual state; 0 if nothing ran.
  double HighestRate(const MachineState& machine) const;
  TaskProgress Progress(const MachineState& machine, double peak_flops, double rate) const;

  // Returns the candidates that deserve a second measurement: at most two, best first, which were measured once, in an
  // unusual state of the machine or disturbed by other processes, and whose times are close enough to the best time to
  // win. With `only_disturbed`, those that other processes disturbed.
  std::vector<Proposal> Doubtful(const MachineState& machine, bool only_disturbed = false) const;

  // Returns the candidates for the final comparison; fewer than two if there is nothing to compare. `champion` is the
  // best record of the database. The order is: the incumbent (the champion if it is confirmed, else the default
  // schedule), the best other candidate of this run, the default schedule, and, as far as the number of trials allows,
  // the champion and the candidates of this run that may be faster than the incumbent, best first. The list is empty if
  // no good trial came after the last confirmation.
  std::vector<Finalist> Finalists(const std::optional<Record>& champion, const MachineState& machine) const;

 private:
  struct Entry {
    Proposal proposal;
    TrialStatus status = TrialStatus::kOk;
    double seconds = 0;  // per call; 0 if it failed or was cut off
    double bound = 0;    // lower bound of the seconds per call if it was cut off, else 0
    ReferenceTime reference;
    bool disturbed = false;  // Record::disturbed
    bool ours = false;       // true: measured by this run
    bool measured_again = false;
  };

  static constexpr int kMostLostRounds = 3;
  static constexpr int kMostUploads = 3;  // failed uploads of one default candidate before it is given up

  bool IsSuccess(const Entry& entry) const { return entry.ours && entry.seconds > 0; }
  // Returns whether the run has an undisturbed time.
  bool HasUndisturbed() const;
  // Returns the successes of this run, best first: undisturbed ones before disturbed ones. Seconds are of the machine's
  // usual state.
  std::vector<std::pair<double, const Entry*>> Ranking(const MachineState& machine) const;
  std::optional<Proposal> Champion(const Record& record) const;
  // Handles a record of the default schedule or of the next candidate for it. Returns false for other records.
  bool AbsorbDefault(const Proposal& proposal, const Record& record);
  // Returns true if the space has a point besides `proposal`.
  bool HasOther(const Proposal& proposal) const;
  void AddSample(const Proposal& proposal, double seconds, const Record& record);
  const TaskAlternative& AlternativeOf(const Proposal& proposal) const {
    return space_.task->alternatives[space_.sketches[proposal.sketch].alternative];
  }
  // Returns the identity of a candidate: its alternative and its trace, since two alternatives may have equal traces.
  std::string KeyOf(const Proposal& proposal) const;

  TaskSpace space_;
  uint64_t seed_;
  SearchKind search_;
  SearchFactory make_search_;
  TaskReport report_;
  std::vector<Proposal> candidates_;           // the task's DefaultCandidates, in their order
  std::vector<std::string> candidate_traces_;  // texts of the traces of candidates_
  size_t next_candidate_ = 0;
  int uploads_ = 0;          // failed uploads of the next candidate
  int64_t lost_round_ = -1;  // the last round that `lost_rounds_` takes into account
  int lost_rounds_ = 0;      // number of successive rounds in which the farm failed for all candidates
  std::optional<Proposal> default_;
  std::vector<Entry> entries_;                      // known schedules first, then this run's in the order measured
  std::unordered_map<std::string, size_t> places_;  // indices in `entries_`, by KeyOf
  std::vector<Sample> samples_;
  int64_t confirmation_ = 0;  // number of this run's last confirmation
  bool unconfirmed_ = false;  // true: a good trial came after the last confirmation
};

}  // namespace autotune
