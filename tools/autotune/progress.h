// Progress shows a tuning run to the user: as a live line on a terminal, as plain lines elsewhere, or as JSON lines on
// request. At the end it prints a table. Wait and WaitForHost may be called from any thread, all other functions only
// from one thread.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "compiler/choose.h"
#include "compiler/network.h"
#include "tools/autotune/waits.h"
#include "tuner/tune.h"

namespace autotune::tools {

struct ProgressOptions {
  bool json = false;
  bool chooses = false;  // a final choice among whole networks follows the search
  bool verbose = false;  // also prints the target's full text, and why the first candidate was skipped
};

class Progress {
 public:
  // `tasks` are the tasks of the network that are tuned.
  Progress(const Network& network, const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
           ProgressOptions style);

  // Prints the network's name and size and the machine. `where` is ", on `pi` of HOST:PORT", or empty for this machine.
  // `time_budget` is the limit of the whole command in seconds; 0: no limit.
  void Begin(const std::string& where, double time_budget);
  // Shows that the tuner waits for a device, and why. An empty reason ends the wait.
  void Wait(const std::string& reason);
  void WaitForHost(const HostWait& wait);  // shows that this process waits for the host's lock
  // Shows the state of the run after a round or a confirmation, whose task is `current`.
  void Update(const TuneReport& so_far, const TaskReport& current);
  void End(const TuneReport& report);  // prints the last state and the numbers of candidates without a time
  void Choosing(double done);          // shows the progress of the final choice, from 0 to 1
  // Prints the table of the tasks and the final choice. `chosen` is null if no choice was made, and `peak_flops` is
  // empty if the peak was not measured.
  void Summary(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const;
  // Prints the commands that run and measure the package. If no package was written, prints `compile`, the command that
  // makes one. `compile` is empty if the results are lost, since the database is in memory.
  void NextSteps(const std::string& package, const std::string& compile) const;

 private:
  void ShowWait(const std::string& what, int64_t since, const std::string& reason);
  std::string Line(const TuneReport& report) const;
  void PrintJson(const Json& line) const;
  void SummaryAsJson(const TuneReport& report, const ChosenNetwork* chosen) const;
  void Table(const TuneReport& report, const ChosenNetwork* chosen, std::optional<double> peak_flops) const;

  const Network& network_;
  const std::vector<TuneTask>& tasks_;
  const Target& target_;
  const TuneOptions& options_;
  const ProgressOptions style_;
  const bool terminal_;
  double last_line_ = 0;

  std::mutex wait_mutex_;
  int64_t waiting_since_ = 0;  // BootMillis; 0: not waiting
  WaitLines wait_lines_;
};

// Returns why the search ended before it had used its trials: its time was over, or its tasks cannot be improved.
// Returns an empty text if it used all trials.
std::string WhyEnded(const TuneReport& report, const TuneOptions& options);

}  // namespace autotune::tools
