#include "tuner/recording.h"

#include <algorithm>
#include <charconv>

#include "archives/compressed_file.h"
#include "ir/text.h"
#include "schedule/trace.h"

namespace autotune {
namespace {

// Returns the features as the shortest decimal numbers that parse to the same floats. These compress better than bytes.
std::string FeaturesText(const Features& features) {
  std::string text;
  char digits[32];
  for (float value : features) {
    if (!text.empty()) text += ' ';
    text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  return text;
}

Result<Features> ParseFeatures(std::string_view text) {
  Features features;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at == ' ') ++at;
    float value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return Err("features: expected a number");
    features.push_back(value);
    at = next;
  }
  return features;
}

// The line of one candidate. `task` is the index of its task, in the order of the file.
struct CandidateLine {
  int task = 0;
  std::string alternative, trace, features;
  TrialStatus status = TrialStatus::kOk;
  double seconds = 0;
  bool confirmed = false;
  AUTOTUNE_FIELDS(task, alternative, trace, features, status, seconds, confirmed)
};

Status ReadCandidate(const Json& json, Recording& recording) {
  CandidateLine line = TRY(FromJson<CandidateLine>(json));
  if (line.task < 0 || line.task >= static_cast<int>(recording.tasks.size()))
    return Err("a candidate belongs to task ", line.task, ", but no earlier line describes that task");
  const bool timed = line.status == TrialStatus::kOk || line.status == TrialStatus::kCutOff;
  if (timed && !(line.seconds > 0)) return Err("a candidate ran but has no time");
  Features features = TRY(ParseFeatures(line.features));
  recording.tasks[static_cast<size_t>(line.task)].candidates.push_back({.alternative = std::move(line.alternative),
                                                                        .trace = std::move(line.trace),
                                                                        .status = line.status,
                                                                        .seconds = timed ? line.seconds : 0,
                                                                        .confirmed = line.confirmed,
                                                                        .features = std::move(features)});
  return {};
}

Status ReadLine(const Json& json, bool first, Recording& recording) {
  if (first) {
    recording.header = TRY(FromJson<RecordedHeader>(json));
    if (recording.header.format != kRecordingFormat)
      return Err("the recording has format ", recording.header.format, ", but this program reads format ",
                 kRecordingFormat);
    if (recording.header.versions.step_language != kStepLanguageVersion)
      return Err("the recording uses step language ", recording.header.versions.step_language,
                 ", but this program uses ", kStepLanguageVersion, ": record it again");
    return {};
  }
  if (json["trace"].IsNull()) {
    recording.tasks.push_back(TRY(FromJson<RecordedTask>(json)));
    return {};
  }
  return ReadCandidate(json, recording);
}

}  // namespace

double RecordedTask::BestSeconds() const {
  double best = 0;
  for (const RecordedCandidate& candidate : candidates) {
    if (candidate.status == TrialStatus::kOk && (best == 0 || candidate.seconds < best)) best = candidate.seconds;
  }
  return best;
}

Status WriteRecording(const Recording& recording, const std::string& path) {
  std::string text = ToJson(recording.header).Dump() + "\n";
  for (const RecordedTask& task : recording.tasks) text += ToJson(task).Dump() + "\n";
  for (size_t i = 0; i < recording.tasks.size(); ++i) {
    // Sort the candidates: neighbouring lines then share most of their text, so the file compresses better.
    std::vector<const RecordedCandidate*> order;
    for (const RecordedCandidate& candidate : recording.tasks[i].candidates) order.push_back(&candidate);
    std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
      return a->alternative != b->alternative ? a->alternative < b->alternative : a->trace < b->trace;
    });
    for (const RecordedCandidate* candidate : order) {
      CandidateLine line{.task = static_cast<int>(i),
                         .alternative = candidate->alternative,
                         .trace = candidate->trace,
                         .features = FeaturesText(candidate->features),
                         .status = candidate->status,
                         .seconds = candidate->seconds,
                         .confirmed = candidate->confirmed};
      text += ToJson(line).Dump() + "\n";
    }
  }
  return WriteCompressedFile(path, text);
}

Result<Recording> ReadRecording(const std::string& path) {
  std::string text = TRY(ReadCompressedFile(path));
  Recording recording;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    auto read = [&]() -> Status {
      return ReadLine(TRY(Json::Parse(std::string_view(text).substr(begin, end - begin))), number == 1, recording);
    };
    TRY_NOTE(read(), path + ", line " + std::to_string(number));
    begin = end + 1;
  }
  if (number == 0) return Err(path, " is empty");
  return recording;
}

Result<TuneTask> MakeTuneTask(const RecordedTask& task) {
  if (task.alternatives.empty()) return Err("task ", task.label, " has no program");
  TuneTask tune{.hash = HashBytes128(task.hash), .label = task.label, .flops = task.flops};
  for (const RecordedAlternative& alternative : task.alternatives) {
    PrimFunc func = TRY_NOTE(ParsePrimFunc(alternative.func), "in task " + task.label);
    tune.alternatives.push_back({alternative.name, std::move(func)});
  }
  return tune;
}

}  // namespace autotune
