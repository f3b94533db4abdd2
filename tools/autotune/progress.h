// Progress: what a user sees while tuning: a live line on a terminal, plain lines elsewhere, JSON lines on request; and
// the table at the end. Not thread-safe.
#pragma once
#include <optional>
#include <string>

#include "compiler/network.h"
#include "tuner/tune.h"

namespace autotune::tools {

class Progress {
 public:
  Progress(const Network& network, const Target& target, const TuneOptions& options, bool json);

  void Begin(const std::string& where);  // what will be tuned for what, and about how long
  void Update(const TuneReport& so_far, const TaskReport& current);
  void End(const TuneReport& report);  // finishes the live line
  // The table per task and the latency before and after, in ms, and the share of the peak, where they
  // could be measured.
  void Summary(const TuneReport& report, std::optional<double> before_ms, std::optional<double> after_ms,
               std::optional<double> peak_flops) const;
  // `compile`: the command that makes a package, if none was written.
  void NextSteps(const std::string& package, const std::string& compile) const;

 private:
  std::string Line(const TuneReport& report) const;

  const Network& network_;
  const Target& target_;
  const TuneOptions& options_;
  bool json_, terminal_;
  double last_line_ = 0;
};

}  // namespace autotune::tools
