// Progress: shows a tuning run to the user: a live line on a terminal, plain lines elsewhere, JSON lines on request; at
// the end a table. Wait may be called from any thread; all other functions belong to one thread.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "compiler/choose.h"
#include "compiler/network.h"
#include "tuner/tune.h"

namespace autotune::tools {

struct ProgressOptions {
  bool json = false;
  bool verbose = false;  // also prints the target's full text, and why the first candidate was skipped
};

class Progress {
 public:
  // `tasks`: the tasks of the network that are tuned.
  Progress(const Network& network, const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
           ProgressOptions style);

  // Prints what is tuned, and on which machine. `where`: ", on `pi` of HOST:PORT"; empty for this machine.
  // `time_budget`: seconds for all of the command; 0: none.
  void Begin(const std::string& where, double time_budget);
  // Shows that the tuner waits for a device, and why. An empty reason ends the wait.
  void Wait(const std::string& reason);
  void Update(const TuneReport& so_far, const TaskReport& current);
  void End(const TuneReport& report);  // finishes the live line
  void Choosing(double done);          // shows the progress of the final choice, from 0 to 1
  // Prints the table of the tasks and the final choice. `chosen` is null, `peak_flops` empty, if it was not measured.
  void Summary(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const;
  // Prints how to use the package, or, if none was written, `compile`: the command that makes one.
  void NextSteps(const std::string& package, const std::string& compile) const;

 private:
  std::string Line(const TuneReport& report) const;
  void PrintJson(const Json& line) const;
  void SummaryAsJson(const TuneReport& report, const ChosenNetwork* chosen) const;
  void Table(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const;
  // Why the search ended before its trials were spent; empty if they were, or if the time was.
  std::string WhyEnded(const TuneReport& report) const;

  const Network& network_;
  const std::vector<TuneTask>& tasks_;
  const Target& target_;
  const TuneOptions& options_;
  const ProgressOptions style_;
  const bool terminal_;
  double last_line_ = 0;

  std::mutex wait_mutex_;
  int64_t waiting_since_ = 0;   // boot milliseconds; 0: not waiting
  int64_t wait_began_at_ = 0;   // the same as Unix milliseconds, for display
  int64_t last_wait_line_ = 0;  // boot milliseconds
};

}  // namespace autotune::tools
