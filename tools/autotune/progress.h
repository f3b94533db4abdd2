// Progress: what a user sees while tuning: a live line on a terminal, plain lines elsewhere, JSON lines on request; and
// the table at the end. Wait may be called from any thread; all else belongs to one thread.
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
  bool verbose = false;  // with the target's full text, and the cause of the first failure of each kind
};

class Progress {
 public:
  // `tasks`: those of the network that are tuned.
  Progress(const Network& network, const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
           ProgressOptions style);

  // What will be tuned, on which machine: "on `pi` of HOST:PORT", or "" for this machine.
  void Begin(const std::string& where);
  // Shows that the tuner waits for a device, and the reason. An empty reason ends the wait.
  void Wait(const std::string& reason);
  void Update(const TuneReport& so_far, const TaskReport& current);
  void End(const TuneReport& report);  // finishes the live line
  void Choosing(double done);          // the final choice is under way; the share that is done
  // The table per task and the final choice; null and nothing where they could not be measured.
  void Summary(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const;
  // `compile`: the command that makes a package, if none was written.
  void NextSteps(const std::string& package, const std::string& compile) const;

 private:
  std::string Line(const TuneReport& report) const;
  void PrintJson(const Json& line) const;
  void SummaryAsJson(const TuneReport& report, const ChosenNetwork* chosen) const;
  void Table(const TuneReport& report, std::optional<double> peak_flops) const;

  const Network& network_;
  const std::vector<TuneTask>& tasks_;
  const Target& target_;
  const TuneOptions& options_;
  const ProgressOptions style_;
  const bool terminal_;
  double last_line_ = 0;

  std::mutex wait_mutex_;
  int64_t waiting_since_ = 0;   // boot milliseconds; 0: does not wait
  int64_t wait_began_at_ = 0;   // the same as Unix milliseconds, for display
  int64_t last_wait_line_ = 0;  // boot milliseconds
  std::string last_wait_reason_;
};

}  // namespace autotune::tools
