// The data of a report: where the time of a network goes, how far its kernels are from the machine, and what tuning
// found. `autotune report` fills it, its page shows it, and --json prints it. So the page and the JSON have the same
// numbers. Each struct declares its fields once; their names and units stay as they are, since `autotune compare` reads
// reports of older versions. A number that is not known is empty. Plain values.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "support/fields.h"

namespace autotune::tools::report {

inline constexpr int64_t kFormat = 1;  // of the reports and comparisons that this program writes

// A median with its 95 % interval (support/statistics.h). Too few samples have no interval.
struct Estimate {
  double median_us = 0;
  std::optional<double> low_us, high_us;
  int64_t samples = 0;
  AUTOTUNE_FIELDS(median_us, low_us, high_us, samples)
};
// `seconds` must not be empty.
Estimate EstimateOf(std::vector<double> seconds);

// The ceilings of the roofline, as measured on this machine with all threads.
struct Peak {
  std::string type;  // of the elements: "f32", and "i8" for bytes and "bf16" where this machine has instructions
  double gflops = 0;
  AUTOTUNE_FIELDS(type, gflops)
};
struct CopyLevel {
  std::string level;  // "L1", "L2", "L3", "memory"
  double gbytes_per_second = 0;
  std::optional<double> capacity_bytes;  // of all cores together; empty: memory
  AUTOTUNE_FIELDS(level, gbytes_per_second, capacity_bytes)
};
struct Ceilings {
  std::vector<Peak> peaks;
  std::vector<CopyLevel> levels;  // nearest first
  AUTOTUNE_FIELDS(peaks, levels)
};

// A cause of a kernel's time (compiler/explain.h).
struct Reason {
  std::string cause;
  double gain = 1;
  std::string sentence;
  AUTOTUNE_FIELDS(cause, gain, sentence)
};

// After `trials` trials, the best one took `best_us`.
struct Progress {
  int64_t trials = 0;
  double best_us = 0;
  AUTOTUNE_FIELDS(trials, best_us)
};

// The records of one task and target. The times are of one call of the kernel alone.
struct History {
  int64_t records = 0, trials = 0;
  std::map<std::string, int64_t> outcomes;  // number of records by status
  std::optional<double> default_us;         // of the schedule that `compile` uses without records
  std::optional<double> best_us;            // of RecordStore::Best
  std::string best_record;                  // its id
  std::vector<Progress> progress;           // the first time, and each better one
  AUTOTUNE_FIELDS(records, trials, outcomes, default_us, best_us, best_record, progress)
};

struct Kernel {
  std::string task;    // its hash, 32 hex digits
  std::string kernel;  // name of the function in the library; empty in a report of a database
  std::string label;   // operators and shapes
  std::string alternative;
  bool tuned = false;
  std::string winograd;                 // whether Winograd's algorithm is used, and why not; empty: no convolution
  std::vector<std::string> nodes;       // names in the model of the calls
  int64_t calls = 1;                    // in one run of the network
  double flops = 0, bytes = 0;          // of one call
  std::optional<DType> small_products;  // it multiplies bytes or bf16 (SmallProductsOf); not part of the JSON
  // The time of all calls in one run of the network. In the report of a database: of one call alone, by the best
  // record.
  std::optional<Estimate> time;
  std::optional<double> slowest_call_us;  // median of the slowest call in the network
  std::optional<double> share;            // of the sum of all kernels' times
  std::optional<double> roof_us;          // the least time of all calls that the machine allows
  std::optional<double> roof_share;       // roof_us / time; 1: as fast as the machine allows
  std::string bound;                      // "arithmetic", or the level that holds the data; empty: not known
  std::optional<double> gflops, gbytes_per_second;
  std::optional<Reason> why;
  std::vector<Reason> also;
  std::string trace;  // text of the schedule
  std::optional<History> history;
  AUTOTUNE_FIELDS(task, kernel, label, alternative, tuned, winograd, nodes, calls, flops, bytes, time, slowest_call_us,
                  share, roof_us, roof_share, bound, gflops, gbytes_per_second, why, also, trace, history)
};

// The candidates with one outcome other than "ok".
struct Failure {
  std::string outcome;
  int64_t count = 0;
  std::string first_error, task;  // of the first one with a text
  AUTOTUNE_FIELDS(outcome, count, first_error, task)
};

// One comparison of the final choice: how many times as fast the chosen schedules are as the default ones.
struct ChosenSpeed {
  int64_t threads = 0;  // 0: a GPU
  double untuned_ms = 0, tuned_ms = 0;
  double speedup = 0, speedup_low = 0, speedup_high = 0;
  int64_t pairs = 0;
  AUTOTUNE_FIELDS(threads, untuned_ms, tuned_ms, speedup, speedup_low, speedup_high, pairs)
};
struct Choice {
  std::string model, network;  // name; hash of the structure
  int64_t created_at = 0;      // Unix time in milliseconds
  bool current = true;         // false: of another code generator, so `compile` ignores it
  int64_t tuned_tasks = 0, tasks = 0;
  std::vector<ChosenSpeed> speeds;
  AUTOTUNE_FIELDS(model, network, created_at, current, tuned_tasks, tasks, speeds)
};

struct Report {
  std::string kind = "network";  // or "database": tasks without a network
  int64_t format = kFormat;
  std::string name;                   // of the network or of the database's file
  std::string source, command;        // what was reported; the command that did it
  std::vector<std::string> versions;  // of the program and of its formats
  std::string machine;                // this machine, in words
  std::string target, target_text;    // what the kernels are for, in words and in full
  int64_t threads = 0;                // of the kernels; 0: a GPU, or not measured
  int64_t created_at = 0;             // Unix time in milliseconds
  std::string not_measured;           // why no kernel was measured here; empty: they were
  std::vector<std::string> notes;     // remarks for the reader
  std::optional<Estimate> time;       // of one run of the network
  std::optional<double> kernels_us;   // sum of the kernels' times
  bool agree = true;                  // the two times agree
  std::string agreement;              // how closely they do, or why they do not
  std::optional<Ceilings> ceilings;   // empty: not measured
  std::vector<Kernel> kernels;        // the slowest first
  std::vector<Progress> progress;     // of the sum over all tasks of calls x best time, once all have one
  std::vector<Failure> failures;      // most first
  std::vector<Choice> choices;        // for this network, or all of the database
  AUTOTUNE_FIELDS(kind, format, name, source, command, versions, machine, target, target_text, threads, created_at,
                  not_measured, notes, time, kernels_us, agree, agreement, ceilings, kernels, progress, failures,
                  choices)
};

}  // namespace autotune::tools::report
