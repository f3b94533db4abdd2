#include "tuner/task_state.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "ir/text.h"
#include "schedule/trace.h"
#include "tuner/defaults.h"
#include "tuner/trial_fault.h"

namespace autotune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kFinalists = 5;  // most finalists of a task; more would cost more time than they gain
// Trials of a task that allow one more finalist than two. So a confirmation is short compared with the task's trials.
// The default schedule is a finalist in any case.
constexpr int kTrialsPerFinalist = 16;
// Largest ratio of a candidate's time to the champion's cost with which the candidate may still win. It is large, since
// the champion may have been measured by another run, in another state of the machine. The same holds for a disturbed
// time.
constexpr double kOtherRun = 1.5;
constexpr double kNearBest = 1.05;  // largest ratio of the times of equally fast candidates from two machine states
constexpr size_t kDoubtful = 2;     // most second measurements per task and round

// Returns the lower bound in seconds of a candidate that was cut off; 0 for others.
double BoundOf(const Record& record) { return record.status == TrialStatus::kCutOff ? record.cost : 0; }

}  // namespace

ReferenceTime ReferenceOf(const Record& record) {
  return {record.facts[kReferenceFact].Number().value_or(0), record.server.empty() ? record.device : record.server};
}

TaskState::TaskState(TaskSpace space, uint64_t seed, SearchKind search, SearchFactory make_search)
    : space_(std::move(space)),
      seed_(HashCombine(seed, space_.task->hash.low)),
      search_(search),
      make_search_(std::move(make_search)) {
  report_.task = space_.task;
  for (Proposal& proposal : DefaultCandidates(space_)) {
    std::string trace = ToText(proposal.trace);
    // Locate adds the features if the candidate is a point of the space.
    std::optional<Proposal> full = Locate(space_, AlternativeOf(proposal).name, proposal.trace);
    candidates_.push_back(full ? std::move(*full) : std::move(proposal));
    candidate_traces_.push_back(std::move(trace));
  }
}

std::optional<Proposal> TaskState::Find(const Record& record) const {
  if (record.versions.step_language != kStepLanguageVersion) return std::nullopt;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (record.trace == candidate_traces_[i] && record.alternative == AlternativeOf(candidates_[i]).name)
      return candidates_[i];
  }
  Result<Trace> trace = ParseTrace(record.trace);
  if (!trace.ok()) return std::nullopt;
  return Locate(space_, record.alternative, *trace);
}

std::string TaskState::KeyOf(const Proposal& proposal) const {
  return AlternativeOf(proposal).name + '\n' + ToText(proposal.trace);
}

std::optional<Proposal> TaskState::NextDefault() const {
  if (default_ || next_candidate_ >= candidates_.size()) return std::nullopt;
  return candidates_[next_candidate_];
}

// Makes a new search strategy in each round and tells it all entries. So the proposals are the same whether this
// process or an interrupted one measured the entries.
Result<std::vector<Proposal>> TaskState::Propose(int n, const CostModel* model, const MachineState& machine) {
  uint64_t seed = HashCombine(seed_, static_cast<uint64_t>(report_.records));
  std::unique_ptr<SearchStrategy> search = make_search_ ? make_search_(space_, model, seed)
                                           : search_ == SearchKind::kRandom
                                               ? MakeRandomSearch(space_, seed)
                                               : MakeEvolutionarySearch(space_, model, seed);
  // A disturbed time ranks behind every other one: the search gets it as the longest undisturbed time, if it is
  // shorter.
  double longest = 0;
  for (const Entry& entry : entries_) {
    if (!entry.disturbed) longest = std::max(longest, machine.Comparable(entry.seconds, entry.reference));
  }
  for (const Entry& entry : entries_) {
    if (entry.proposal.features.empty()) continue;  // not a point of the space; for example, the unscheduled program
    if (entry.status == TrialStatus::kUploadFailed) {
      search->Exclude(entry.proposal);
    } else if (entry.seconds > 0) {
      const double seconds = machine.Comparable(entry.seconds, entry.reference);
      search->Observe(entry.proposal, entry.disturbed ? std::max(seconds, longest) : seconds);
    } else {
      search->Observe(entry.proposal, entry.bound > 0 ? entry.bound : kInfinity);
    }
  }
  for (const Proposal& candidate : candidates_) {
    if (!candidate.features.empty() && !default_) search->Exclude(candidate);
  }
  std::vector<Proposal> proposals = TRY(search->Propose(n));
  if (proposals.empty()) report_.exhausted = true;
  return proposals;
}

void TaskState::Know(const Proposal& proposal, const Record& record) {
  if (!places_.emplace(KeyOf(proposal), entries_.size()).second) return;
  entries_.push_back({.proposal = proposal,
                      .status = record.status,
                      .seconds = IsRanked(record) ? record.cost : 0,
                      .bound = BoundOf(record),
                      .disturbed = !record.disturbed.empty()});
  AddSample(proposal, IsRanked(record) ? record.cost : kInfinity, record);
}

void TaskState::Absorb(const Record& record, const std::optional<Proposal>& proposal, const MachineState& machine) {
  ++report_.records;
  if (WasExecuted(record.status)) ++report_.trials;
  if (record.status != TrialStatus::kOk) ++report_.failures[record.status];
  const int64_t* number = record.facts[kRoundFact].As<int64_t>();
  const int64_t round = number ? *number : 0;
  if (!IsFarmFault(record.status)) {
    lost_rounds_ = 0;
    lost_round_ = round;
  } else if (round != lost_round_) {
    ++lost_rounds_;
    lost_round_ = round;
  }
  if (!proposal || IsFarmFault(record.status)) return;
  const ReferenceTime reference = ReferenceOf(record);
  Entry entry{.proposal = *proposal,
              .status = record.status,
              .seconds = IsRanked(record) ? record.cost : 0,
              .bound = BoundOf(record),
              .reference = reference,
              .disturbed = !record.disturbed.empty(),
              .ours = true};
  auto [place, first] = places_.emplace(KeyOf(*proposal), entries_.size());
  if (first) {
    entries_.push_back(std::move(entry));
  } else {
    Entry& known = entries_[place->second];
    entry.measured_again = known.ours;
    if (entry.disturbed && IsSuccess(known) && !known.disturbed) {
      known.measured_again = true;
    } else {
      known = std::move(entry);
    }
  }
  if (!AbsorbDefault(*proposal, record)) {
    ++report_.candidates;
    report_.good += IsRanked(record);
  }
  unconfirmed_ |= IsRanked(record);
  if (record.status != TrialStatus::kUploadFailed)
    AddSample(*proposal, IsRanked(record) ? machine.Comparable(record.cost, reference) : kInfinity, record);
}

// A candidate that was cut off becomes a sample with its lower bound as its time: it is slow, but it works.
void TaskState::AddSample(const Proposal& proposal, double seconds, const Record& record) {
  if (proposal.features.empty()) return;
  if (BoundOf(record) > 0) seconds = BoundOf(record);
  samples_.push_back({space_.task->hash.low, proposal.features, proposal.draft_seconds, seconds});
}

// A random search finds another point at once if there is one, and does not depend on what was measured.
bool TaskState::HasOther(const Proposal& proposal) const {
  const std::unique_ptr<SearchStrategy> search = MakeRandomSearch(space_, seed_);
  if (!proposal.features.empty()) search->Exclude(proposal);
  return !search->Propose(1).value().empty();
}

bool TaskState::AbsorbDefault(const Proposal& proposal, const Record& record) {
  if (default_) return KeyOf(proposal) == KeyOf(*default_);
  if (next_candidate_ >= candidates_.size() || KeyOf(proposal) != KeyOf(candidates_[next_candidate_])) return false;
  if (IsRanked(record)) {
    default_ = proposal;
    report_.default_seconds = record.cost;
    report_.default_trace = record.trace;
    report_.default_alternative = record.alternative;
    report_.only_schedule = entries_.size() == 1 && !HasOther(proposal);
  } else if (record.status != TrialStatus::kUploadFailed || ++uploads_ == kMostUploads) {
    ++next_candidate_;
    uploads_ = 0;
  }
  return true;
}

void TaskState::AbsorbConfirmation(const Record& record) {
  unconfirmed_ = false;
  if (!IsRanked(record)) return;
  if (default_ && record.alternative + '\n' + record.trace == KeyOf(*default_)) report_.default_seconds = record.cost;
  if (record.confirmation < confirmation_) return;
  confirmation_ = record.confirmation;
  report_.best_seconds = record.cost;
  report_.best_trace = record.trace;
  report_.best_alternative = record.alternative;
}

bool TaskState::HasUndisturbed() const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return IsSuccess(entry) && !entry.disturbed; });
}

std::vector<std::pair<double, const TaskState::Entry*>> TaskState::Ranking(const MachineState& machine) const {
  std::vector<std::pair<double, const Entry*>> ranking;
  for (const Entry& entry : entries_) {
    if (IsSuccess(entry)) ranking.emplace_back(machine.Comparable(entry.seconds, entry.reference), &entry);
  }
  std::ranges::stable_sort(ranking, [](const auto& a, const auto& b) {
    return std::pair(a.second->disturbed, a.first) < std::pair(b.second->disturbed, b.first);
  });
  return ranking;
}

double TaskState::BestSeconds(const MachineState& machine) const {
  double best = 0;
  const bool only_disturbed = !HasUndisturbed();
  for (const Entry& entry : entries_) {
    if (!IsSuccess(entry) || (entry.disturbed && !only_disturbed)) continue;
    double seconds = machine.Comparable(entry.seconds, entry.reference);
    if (best == 0 || seconds < best) best = seconds;
  }
  return best;
}

double TaskState::HighestRate(const MachineState& machine) const {
  double rate = 0;
  for (const Entry& entry : entries_) {
    if (!entry.ours || entry.seconds <= 0) continue;
    double seconds = machine.Comparable(entry.seconds, entry.reference);
    rate = std::max(rate, FewestOperations(*space_.task, AlternativeOf(entry.proposal)) / seconds);
  }
  return rate;
}

TaskProgress TaskState::Progress(const MachineState& machine, double peak_flops, double rate) const {
  TaskProgress progress;
  progress.bound = RooflineSeconds(*space_.task, peak_flops);
  for (const Entry& entry : entries_) progress.attempts += entry.ours;
  progress.recent = RecentAttempts(progress.attempts);
  double best = 0, earlier = 0;  // least seconds of all attempts, and without the recent ones
  const bool only_disturbed = !HasUndisturbed();
  int attempts = 0;
  for (const Entry& entry : entries_) {
    attempts += entry.ours;
    if (IsSuccess(entry) && (!entry.disturbed || only_disturbed)) {
      double seconds = machine.Comparable(entry.seconds, entry.reference);
      best = best == 0 ? seconds : std::min(best, seconds);
    }
    if (attempts <= progress.attempts - progress.recent) earlier = best;
  }
  progress.seconds = best > 0 ? best : EstimatedSeconds(*space_.task, rate);
  if (earlier > 0) progress.improvement = 1 - best / earlier;
  return progress;
}

std::vector<Proposal> TaskState::Doubtful(const MachineState& machine, bool only_disturbed) const {
  std::vector<std::pair<double, const Entry*>> found;
  double best = BestSeconds(machine);
  for (const Entry& entry : entries_) {
    if (entry.seconds <= 0 || entry.measured_again) continue;
    if (!entry.disturbed && (only_disturbed || machine.IsUsual(entry.reference))) continue;
    double seconds = machine.Comparable(entry.seconds, entry.reference);
    if (seconds <= (entry.disturbed ? kOtherRun : kNearBest) * best) found.emplace_back(seconds, &entry);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Proposal> proposals;
  for (size_t i = 0; i < std::min(kDoubtful, found.size()); ++i) proposals.push_back(found[i].second->proposal);
  return proposals;
}

// Returns the candidate of a stored schedule, even if older rules made it and it is not a point of the space. Its trace
// can still be replayed, and `compile` would use it.
std::optional<Proposal> TaskState::Champion(const Record& record) const {
  if (std::optional<Proposal> placed = Find(record)) return placed;
  Result<Trace> trace = ParseTrace(record.trace);
  if (!trace.ok() || record.versions.step_language != kStepLanguageVersion) return std::nullopt;
  for (size_t i = 0; i < space_.sketches.size(); ++i) {
    const TaskAlternative& alternative = space_.task->alternatives[space_.sketches[i].alternative];
    if (alternative.name != record.alternative || ToText(alternative.func) != record.func) continue;
    Proposal proposal;
    proposal.sketch = static_cast<int>(i);
    proposal.trace = *trace;
    return proposal;
  }
  return std::nullopt;
}

std::vector<Finalist> TaskState::Finalists(const std::optional<Record>& champion, const MachineState& machine) const {
  std::vector<Finalist> finalists;
  if (!unconfirmed_) return finalists;
  const std::vector<std::pair<double, const Entry*>> ranking = Ranking(machine);
  const size_t most = std::min(kFinalists, 2 + static_cast<size_t>(report_.trials / kTrialsPerFinalist));
  std::unordered_set<std::string> known;
  auto add = [&](const Proposal& proposal) {
    if (!known.insert(KeyOf(proposal)).second) return;
    auto place = places_.find(KeyOf(proposal));
    bool right = place != places_.end() && entries_[place->second].ours && entries_[place->second].seconds > 0;
    finalists.push_back({proposal, right});
  };
  std::optional<Proposal> best = champion ? Champion(*champion) : std::nullopt;
  double limit = kInfinity;  // longest time of a candidate that may win
  if (best && champion->confirmation > 0) {
    add(*best);
    limit = kOtherRun * champion->cost;
  } else if (default_) {
    add(*default_);
    const Entry& entry = entries_[places_.at(KeyOf(*default_))];
    if (entry.seconds > 0) limit = kNearBest * machine.Comparable(entry.seconds, entry.reference);
  }
  // Add the best other candidate even if the incumbent seems faster. The incumbent's time may come from another state
  // of the machine.
  for (const auto& [seconds, entry] : ranking) {
    if (finalists.empty() || KeyOf(entry->proposal) != KeyOf(finalists.front().proposal)) {
      add(entry->proposal);
      break;
    }
  }
  // Always add the default schedule. Otherwise its time would be the least of a trial's repeats, which is lower than
  // the median of turns that a confirmed schedule has, and the tuned schedule could seem to be the slower one.
  if (default_) add(*default_);
  if (best && finalists.size() < most) add(*best);
  for (const auto& [seconds, entry] : ranking) {
    if (finalists.size() < most && seconds <= limit) add(entry->proposal);
  }
  return finalists;
}

}  // namespace autotune
