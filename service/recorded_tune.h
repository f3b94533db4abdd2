// Tunes the tasks of a recording (docs/recordings.md) on the recorded device, which answers at once. So a search is
// judged in seconds, on any machine: `autotune tune --device recorded:FILE`. Stateless.
#pragma once
#include <atomic>
#include <string>

#include "service/events.h"
#include "service/tune.h"
#include "support/result.h"

namespace autotune {

// Returns the file of --device recorded:FILE; empty for other devices.
std::string RecordingOf(const std::string& device);

// Returns an error if a request for a recorded device has options that need a model or a real device.
Status CheckRecordedRequest(const TuneRequest& request);

struct RecordedEnd {
  bool interrupted = false;
  int trials = 0;   // of the run that was interrupted
  int planned = 0;  // trials of each run
};
// Tunes the tasks, once for each of the request's seeds, and emits Begin, then Round and End for each seed, and Saved.
// Without a database in the request, records are in memory.
Result<RecordedEnd> TuneRecorded(const TuneRequest& request, const EventSink& emit, const std::atomic<bool>& stop);

}  // namespace autotune
