// Recording: what a device measured of some tasks, complete enough to search them again without the device: the tasks'
// programs, and for each candidate its trace, features and time or failure. Plain values. Replayed by
// tuner/recorded_measurer.h; the file is described in docs/recordings.md.
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
  double seconds = 0;      // per call; at the least, if it was cut off; 0 if it failed
  bool confirmed = false;  // `seconds` was measured in turns with the other best ones
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
  double flops = 0;   // of one run
  std::vector<RecordedAlternative> alternatives;
  std::vector<RecordedCandidate> candidates;
  AUTOTUNE_FIELDS(kind, hash, label, flops, alternatives)  // candidates have lines of their own in the file

  // The least time of a candidate; 0 if none ran.
  double BestSeconds() const;
};

struct RecordedHeader {
  int format = kRecordingFormat;
  std::string target;       // full text
  std::string machine;      // for people
  uint64_t seed = 0;        // that the tasks were drawn by
  RecordVersions versions;  // of the program that measured
  AUTOTUNE_FIELDS(format, target, machine, seed, versions)
};

struct Recording {
  RecordedHeader header;
  std::vector<RecordedTask> tasks;
};

Status WriteRecording(const Recording& recording, const std::string& path);
// Errors name the file and line: damaged, of another format, or in a step language that this program does not speak.
Result<Recording> ReadRecording(const std::string& path);

// The task as the tune loop takes it, without its reference program, which only devices need. Its hash is derived from
// the recorded one.
Result<TuneTask> MakeTuneTask(const RecordedTask& task);

}  // namespace autotune
