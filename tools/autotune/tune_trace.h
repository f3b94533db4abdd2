// The trace of `autotune tune --trace FILE`: the phases of the run, what the tuner did, a lane for each device, and the
// waits. Thread-safe.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/autotune/printer.h"
#include "tools/autotune/trace_file.h"
#include "tuner/span.h"

namespace autotune::tools {

class TuneTrace {
 public:
  TuneTrace();
  void Add(const Span& span);
  // Notes at which time an event comes: an event ends a phase of the run, or begins or ends a wait.
  void Add(const event::Any& event);
  // Writes what has happened so far. Phases and waits that have not ended end now.
  Status Write(const std::string& path) const;

 private:
  void EndPhase(const std::string& name);
  double Now() const;

  mutable std::mutex mutex_;
  const double start_;                              // SteadySeconds
  std::vector<Span> spans_;                         // of the tuner
  std::vector<Span> phases_;                        // one after another
  std::map<std::string, std::vector<Span>> waits_;  // by what the run waits for
  std::map<std::string, Span> open_waits_;
  double phase_begin_ = 0;
  std::string phase_ = "prepare";  // the present one
};

// Returns a printer that also gives the events to `trace`.
std::unique_ptr<EventPrinter> MakeTracingPrinter(std::unique_ptr<EventPrinter> printer, TuneTrace& trace);

}  // namespace autotune::tools
