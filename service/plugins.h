// The plug-ins of a tuning run (docs/plugins.md): starts the processes that a request names, and gives them to the
// tuner. Not thread-safe; the thread that starts them must live as long as they do.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "service/events.h"
#include "service/tune.h"
#include "support/result.h"
#include "tuner/plugin.h"
#include "tuner/tune.h"

namespace autotune {

class Plugins {
 public:
  // Starts those of the request. Notes and what they write to their standard error become events.
  static Result<Plugins> Start(const TuneRequest& request, uint64_t seed, const std::atomic<bool>* stop,
                               const EventSink& emit);

  // Makes them the search, or the cost model, of a run.
  void Use(TuneOptions& options) const;
  // Returns what the key of the run has of them (RunIdentity::plugins).
  std::vector<std::string> Identities() const;
  // Emits how often they were too late.
  void EmitLate(const EventSink& emit) const;
  // Adds to the error of a run what became of its records, if the run has a plug-in. `in_memory`: of the database.
  Error Explain(Error error, bool in_memory) const;

 private:
  std::shared_ptr<Plugin> strategy_, cost_model_;  // null: none
};

// Returns the options that name plug-ins, as on a command line, with a leading space.
std::string PluginLine(const TuneRequest& request);

}  // namespace autotune
