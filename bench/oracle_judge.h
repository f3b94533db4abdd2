// Compares the tuner with the oracle: a database with the best known schedule of each task, from long searches
// (bench/oracle.cc). Tunes each task anew on this machine, with several seeds. Then measures the winners, the default
// schedule and the best known schedule in turns.
#pragma once
#include <atomic>

#include "bench/drawn_tasks.h"
#include "records/store.h"
#include "tuner/measurer.h"

namespace autotune::bench {

struct JudgeOptions {
  int trials = 64;                // per task and seed
  int seeds = 3;                  // runs per task, with the seeds 1 to `seeds`
  RecordStore* rivals = nullptr;  // runs of the same tasks by another program, whose best schedules compete
};

// Prints, for each task, the speed of each schedule relative to the best known one, then the means. The best known
// schedule is the fastest one of `oracle` before the new runs that the present rules make, and takes part in the turns;
// a faster schedule has more than 100 %. Adds the records of the new runs to `oracle`: a winner may be the fastest
// schedule so far. Stops after a task once `stop` is true. Returns an error if the best known schedule of a task does
// not run.
Status JudgeTuner(const std::vector<DrawnTask>& tasks, const Target& target, const JudgeOptions& options,
                  RecordStore& oracle, Measurer& measurer, const std::atomic<bool>& stop);

}  // namespace autotune::bench
