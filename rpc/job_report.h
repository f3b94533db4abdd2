// The message by which a tuner tells the tracker how its run goes, for the page of the farm (docs/farm.md). Since
// version 2.8. Plain values.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "rpc/limits.h"
#include "support/fields.h"

namespace autotune::rpc {

inline constexpr size_t kUrlBytes = 1000;
// Returns whether a member's text is the address of a page that others may open with a click: http or https with a
// host, in characters that a URL has, without a user's name, behind which the host could hide. Pure function.
bool IsWebUrl(std::string_view url);

namespace job_state {
inline constexpr char kRunning[] = "running", kDone[] = "done", kStopped[] = "stopped";
}

// The state of a run. It replaces the earlier one of the same run, so a lost one does no harm. Nobody answers it.
struct JobReport {
  static constexpr std::string_view kKind = "job_report";
  std::string run;           // an id, new for each process
  std::string client_name;   // "user@host:pid"
  std::string network, key;  // what is tuned, and on which devices
  std::string state;         // a constant of namespace job_state; later versions may add some
  std::string phase;         // what a run does that is not in its search; for people
  std::string task;          // of the latest round; for people
  std::string result;        // of a run that has ended: what was gained; for people
  int64_t trials = 0, planned_trials = 0, records = 0;  // `planned_trials`: 0 if only a time ends the search
  std::map<std::string, int64_t> outcomes;              // of the records; their sum is `records`
  double best_ms = 0;                                   // of all measured kernels of the network together; 0: unknown
  double trials_per_second = 0;                         // 0: unknown
  // Since 2.9. Texts that are no IsWebUrl are dropped.
  double seconds = 0;    // how long the tuner has been running
  std::string page;      // URL of the run's own page while it runs, for browsers on its host; empty: none
  std::string report;    // URL at which the report of the run is published once it has ended; empty: unknown
  std::string database;  // file on the tuner's host that keeps the records; empty: none does
  AUTOTUNE_FIELDS(run, client_name, network, key, state, phase, task, result, trials, planned_trials, records, outcomes,
                  best_ms, trials_per_second, seconds, page, report, database)
  AUTOTUNE_LIMITS({"run", kIdBytes}, {"client_name", kNameBytes}, {"network", kNameBytes}, {"key", kNameBytes},
                  {"state", kIdBytes}, {"phase", kNameBytes}, {"task", kNameBytes}, {"result", kTextBytes},
                  {"outcomes", kIdBytes, 64}, {"page", kUrlBytes}, {"report", kUrlBytes}, {"database", kTextBytes})
};

}  // namespace autotune::rpc
