// What `autotune explain`, `report` and `compare` look at: the kernels of a package or of a network, their library, and
// their times on this machine.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explain.h"
#include "package/package.h"
#include "support/result.h"
#include "tools/autotune/command.h"
#include "tools/autotune/host.h"
#include "tools/autotune/profile.h"

namespace autotune::tools {

struct ExplainOptions {
  ModelOptions model;
  std::string package, task, trace;
  int threads = 0;
  double seconds = 1, wait = 30;
  bool no_run = false, assembly = false;
  bool any_target = false;  // true: the kernels of a GPU are welcome, although nothing explains them
};

struct ExplainedKernel {
  PackagedKernel kernel;
  std::vector<std::string> nodes;  // names in the model of the calls of the kernel
  double seconds = 0;              // of the slowest of these calls, the median over runs; 0: not measured
  double total = 0;                // of all of these calls together
  double bytes = 0;                // read and written by one call
  std::vector<double> runs;        // seconds of all of these calls together, for each run of the network
};

struct ExplainSource {
  std::string name;  // of the network
  Target target;
  std::string library;  // bytes of the shared object
  std::vector<ExplainedKernel> kernels;
  std::optional<Roofline> roofline;  // of this machine; nothing: not measured
  std::vector<uint64_t> samples;     // addresses in the library at which one thread was found running
  int threads = 1;
  std::vector<double> runs;  // seconds of each run of the network
  // Where in `runs` those begin that followed one load of the network. Networks that are measured in turns are loaded
  // several times, since a network's addresses affect its speed.
  std::vector<size_t> loads;
  ProfileBalance balance;    // of the network's time and those of its kernels
  std::string not_measured;  // why the kernels were not measured; empty if they were
};

// Reads or compiles the kernels and measures them, unless the options say otherwise. If this machine cannot run them,
// they are explained without times. Errors: `options.task` names no kernel; the kernels are for a GPU.
Result<ExplainSource> OpenExplainSource(const ExplainOptions& options);
// The same for several networks, whose loads and runs take turns, so that the n-th run of each met the same state of
// the machine. They have the threads and times of the first one's options.
Result<std::vector<ExplainSource>> OpenExplainSources(const std::vector<ExplainOptions>& options);

// Measures the roofline of this machine with so many threads.
Result<Roofline> RooflineHere(int threads);

// A kernel's explanation, and the code that it is about.
struct Explained {
  Explanation explanation;
  std::vector<CodeRegion> code;
  std::vector<int64_t> samples;  // by region; empty: too few to tell
};
Result<Explained> ExplainKernel(const ExplainSource& source, const ExplainedKernel& kernel);

// Returns the least time of the kernel that the roofline of the source, which must be known, allows.
Roof RoofOf(const ExplainSource& source, const ExplainedKernel& kernel);

// The records of one algorithm of a task.
struct TriedAlternative {
  std::string name;
  int schedules = 0;   // that ran and were right
  double seconds = 0;  // of the best one, as RecordStore::Top ranks them
};
// Returns the algorithms of the task that the database has records of, for the target, the best first. `db` as --db;
// if it is empty and there is no database, returns none.
Result<std::vector<TriedAlternative>> TriedAlternatives(const std::string& db, const std::string& task,
                                                        const Target& target);

// Returns the position of the kernel that `name` denotes: the name of a kernel or of a node that calls it, the
// beginning of a task's hash, or the number of a kernel (k3). An empty name denotes the only kernel. Errors: none
// does, or several.
Result<size_t> FindKernel(const std::vector<ExplainedKernel>& kernels, const std::string& name);

}  // namespace autotune::tools
