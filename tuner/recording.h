// Recording: some tasks and their measurements on one device, complete enough to search the tasks again without the
// device. It holds the programs of the tasks, and the trace, the features and the time or failure of each candidate.
// Plain values. tuner/recorded_measurer.h replays a recording; docs/recordings.md describes its file.
#pragma once
#include <string>
#include <vector>

#include "costmodel/features.h"
#include "records/record.h"
#include "support/result.h"
#include "support/trial.h"
#include "tuner/task.h"

namespace autotune {

inline constexpr int kRecordingFormat = 1;

struct RecordedCandidate {
  std::string alternative, trace;
  TrialStatus status = TrialStatus::kOk;
  double seconds = 0;      // per call; a lower bound if it was cut off; 0 if it failed
  bool confirmed = false;  // true: `seconds` was measured in turns with other candidates
  Features features;       // of schema RecordedHeader::versions.feature_schema
};

struct RecordedAlternative {
  std::string name, func;  // text of the unscheduled PrimFunc
  AUTOTUNE_FIELDS(name, func)
};

struct RecordedTask {
  std::string kind;   // groups tasks in tables: "conv 3x3"
  std::string hash;   // TuneTask::hash, 32 digits
  std::string label;  // for people
  double flops = 0;   // operations of one run
  std::vector<RecordedAlternative> alternatives;
  std::vector<RecordedCandidate> candidates;
  AUTOTUNE_FIELDS(kind, hash, label, flops, alternatives)  // candidates have lines of their own in the file

  // Returns the least time of the candidates that ran; 0 if none did.
  double BestSeconds() const;
};

struct RecordedHeader {
  int format = kRecordingFormat;
  std::string target;       // full text
  std::string machine;      // description of the machine, for people
  uint64_t seed = 0;        // seed with which the tasks were drawn
  RecordVersions versions;  // versions of the program that measured
  AUTOTUNE_FIELDS(format, target, machine, seed, versions)
};

struct Recording {
  RecordedHeader header;
  std::vector<RecordedTask> tasks;
};

Status WriteRecording(const Recording& recording, const std::string& path);
// Errors: the file is damaged, has another format, or uses another step language than this program. They name the file
// and the line.
Result<Recording> ReadRecording(const std::string& path);

// Returns a task for the tune loop. It lacks the reference program, which only devices need. Its hash is derived from
// the recorded one.
Result<TuneTask> MakeTuneTask(const RecordedTask& task);

}  // namespace autotune
