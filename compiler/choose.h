// ChooseSchedules: the final step of a tuning run. It selects the schedules that the network runs. It measures them in
// the whole network, where each kernel finds the caches as the other kernels left them, on the CPU of this host or on a
// device of a farm (compiler/network_host.h), in three stages:
// 1. The default schedule and the best records of every task are linked into one library. The network runs random
//    combinations of these kernels, in blocks in which every task runs each of its kernels (a randomized block design).
//    The time of each kernel is compared with the time of the default kernel in the same block.
// 2. A task selects a tuned kernel only if the kernel is significantly faster at one number of threads, not
//    significantly slower at the other, and faster in the geometric mean. Otherwise it selects its default schedule.
// 3. The package with the selected schedules and the untuned package run in turns at each number of threads. Where that
//    leaves open whether there is a difference, they run in turns for longer. The network takes the selected schedules
//    if that is a gain (JudgeChange in compiler/change.h), else all default ones.
// So tuning never makes a network slower, as far as the comparison can tell. A choice that the store already has is the
// incumbent: new schedules replace it only if they are a gain over it. If they are not, the default schedules replace
// it only if those are a gain. If the incumbent was chosen from the same schedules on such a device, it stands and
// nothing is measured, since repeated comparisons of the same schedules would in the end pick one by chance.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/change.h"
#include "compiler/compile.h"
#include "compiler/network_host.h"
#include "support/statistics.h"

namespace autotune {

struct ChooseOptions {
  // Planned duration of all stages at all numbers of threads, building included. Each comparison of packages gets at
  // least 30 % of it, so slow builds or a second comparison (with the incumbent) make the choice take longer.
  double max_seconds = 10;
  // Longest time for which each comparison of packages goes on at the numbers of threads where it is undecided.
  double max_extra_seconds = 10;
  uint64_t seed = 0;                                       // seed of the random combinations
  std::function<void(double done)> on_progress = nullptr;  // called with the share that is done, in [0, 1]
  const std::atomic<bool>* stop = nullptr;                 // when it becomes true, the choice ends without a result
};

// Why schedules were not taken, or no longer stay.
struct RefusedChange {
  ChangeKind kind = ChangeKind::kEven;
  bool of_previous = false;      // true: of the schedules that were chosen before; false: of the new ones
  bool against_default = false;  // true: compared with the default schedules; false: with those chosen before
  NetworkComparison at;          // at the number of threads that decided; the ratio is refused / kept
};

struct ChosenNetwork {
  // The selected schedules. `choice.comparisons` compares tuned schedules with the default ones, even if the
  // defaults were kept. It is empty if no tuned schedules reached stage 3.
  NetworkChoice choice;
  // Why the selected schedules were not taken. Empty if they were, if none were selected, or if nothing was measured.
  std::optional<RefusedChange> refusal;
  CompileResult compiled;       // package with the schedules of `choice`
  int tuned_tasks = 0;          // number of tasks that run a tuned schedule
  int tasks_with_records = 0;   // number of tasks with a schedule besides the default one
  bool kept_defaults = false;   // true: all tasks run default schedules
  bool kept_previous = false;   // true: the tuned schedules of the choice in the store stay
  bool same_schedules = false;  // true: the store's choice was made from the same schedules, so nothing was measured
  bool stopped = false;         // true: ended by ChooseOptions::stop; all other members are empty
  bool undisturbed = true;      // false: a measurement ran without the host's lock, beside builds or other measurements
  double seconds = 0;           // duration of the choice, building included
};

// Chooses among the records and the choice in `store`, but does not store the new choice. `target` must be that of
// `host`. Errors: a task for which nothing builds; a kernel that fails; no memory; those of the host.
Result<ChosenNetwork> ChooseSchedules(const Network& network, const Target& target, RecordStore& store,
                                      Builder& builder, NetworkHost& host, const ChooseOptions& options = {});

// The variant of each task that a package runs. 0 is the task's default schedule.
using Variants = std::vector<int>;
// Compares two packages at each number of threads. The ratios are second / first.
using VariantComparer =
    std::function<Result<std::vector<NetworkComparison>>(const Variants& first, const Variants& second)>;

struct NetworkDecision {
  Variants chosen;
  std::vector<NetworkComparison> comparisons;  // the last comparison with the default schedules; empty: there was none
  std::optional<RefusedChange> refusal;        // of the schedules that were compared last and lost
};

// Stage 3: chooses `untuned`, `before` or `selected`. `before` holds the variants of the store's choice. It is empty if
// there is no usable choice, or if the choice runs only default schedules. An error of `compare` ends the decision.
Result<NetworkDecision> DecideVariants(const Variants& untuned, const std::optional<Variants>& before,
                                       const Variants& selected, const VariantComparer& compare);

}  // namespace autotune
