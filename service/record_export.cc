#include "service/record_export.h"

#include <cmath>
#include <ctime>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/feature_names.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "schedule/replay.h"
#include "schedule/trace.h"
#include "support/number_text.h"
#include "support/printf_text.h"

namespace autotune {
namespace {

constexpr char kT4Version[] = "1.0.0";
const char* const kColumns[] = {"id",   "task",     "label",     "target",     "device", "alternative", "status",
                                "cost", "verified", "disturbed", "created_at", "run",    "trace"};

// Returns a field of CSV (RFC 4180), in quotes if it needs them.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string CsvLine(const Record& record, const std::optional<Features>& features, bool has_features) {
  std::string cost;
  AppendNumber(cost, record.cost);
  const std::string fields[] = {record.id,
                                record.task,
                                LabelOf(record),
                                record.target,
                                record.device,
                                record.alternative,
                                std::string(ToText(record.status)),
                                cost,
                                record.verified ? "1" : "0",
                                record.disturbed,
                                std::to_string(record.created_at),
                                record.run,
                                record.trace};
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + CsvField(field);
  for (int i = 0; has_features && i < NumFeatures(); ++i) {
    line += ',';
    if (features) AppendNumber(line, static_cast<double>((*features)[i]));
  }
  return line + "\r\n";
}

// Returns why T4 counts a result as invalid; "correct": it is valid. A candidate that was cut off has no time.
const char* InvalidityOf(TrialStatus status) {
  switch (status) {
    case TrialStatus::kOk:
      return "correct";
    case TrialStatus::kRejected:
      return "constraints";
    case TrialStatus::kBuildFailed:
      return "compile";
    case TrialStatus::kWrongAnswer:
      return "correctness";
    case TrialStatus::kBuildTimedOut:
    case TrialStatus::kRunTimedOut:
    case TrialStatus::kCutOff:
      return "timeout";
    default:
      return "runtime";
  }
}

// Returns the decisions of a trace, a member for each number: {"conv2d_m.0": 4, "conv2d_m.1": 8}.
Json::Object DecisionsOf(const std::string& text) {
  Json::Object decisions;
  Result<Trace> trace = ParseTrace(text);
  if (!trace.ok()) return decisions;
  for (size_t i = 0; i < trace->size(); ++i) {
    Step& step = (*trace)[i];
    const Decision* decision = DecisionOf(step);
    if (!decision) continue;
    std::string name = "step" + std::to_string(i);
    if (const auto* tile = std::get_if<SampleTile>(&step)) name = tile->loop.str();
    if (const auto* location = std::get_if<SampleComputeLocation>(&step)) name = location->block.str() + ".location";
    if (const auto* choice = std::get_if<SampleCategorical>(&step); choice && !choice->results.names.empty())
      name = choice->results.names[0].str();
    if (decisions.contains(name) || decisions.contains(name + ".0")) name += "@" + std::to_string(i);
    const std::vector<int64_t>& values = decision->values;
    for (size_t k = 0; k < values.size(); ++k)
      decisions[values.size() == 1 ? name : name + "." + std::to_string(k)] = values[k];
  }
  return decisions;
}

std::string TimestampOf(int64_t ms) {
  const time_t seconds = ms / 1000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return text + Format(".%03dZ", static_cast<int>(ms % 1000));
}

Json Measurement(const std::string& name, Json value, const std::string& unit) {
  Json measurement;
  measurement["name"] = name;
  measurement["value"] = std::move(value);
  measurement["unit"] = unit;
  return measurement;
}

// Times are in milliseconds, as in the files of Kernel Tuner.
Json T4Of(const Record& record, const std::optional<Features>& features) {
  Json result;
  result["timestamp"] = TimestampOf(record.created_at);
  Json::Object configuration = DecisionsOf(record.trace);
  configuration["task"] = record.task;
  configuration["alternative"] = record.alternative;
  configuration["trace"] = record.trace;
  result["configuration"] = std::move(configuration);
  double compilation = 0;
  if (const auto* stages = record.facts["build"]["times_ms"].As<Json::Object>()) {
    for (const auto& [stage, ms] : *stages) compilation += ms.Number().value_or(0);
  }
  Json::Array runtimes;
  for (double seconds : record.times) runtimes.push_back(1e3 * seconds);
  Json times;
  times["compilation_time"] = compilation;
  times["runtimes"] = std::move(runtimes);
  result["times"] = std::move(times);
  result["invalidity"] = InvalidityOf(record.status);
  result["correctness"] = IsRanked(record) ? 1 : 0;
  Json::Array measurements;
  if (record.cost > 0) measurements.push_back(Measurement("time", 1e3 * record.cost, "ms"));
  if (features) {
    for (size_t i = 0; i < features->size(); ++i)
      measurements.push_back(Measurement(FeatureNames()[i].name, static_cast<double>((*features)[i]), ""));
  }
  result["measurements"] = std::move(measurements);
  result["objectives"] = Json::Array{"time"};
  return result;
}

}  // namespace

std::string LabelOf(const Record& record) {
  const std::string* label = record.facts["label"].As<std::string>();
  return label ? *label : "";
}

struct RecordFeatures::Parsed {
  std::unordered_map<Hash128, PrimFunc> programs;
  std::map<std::string, Target> targets;
};

RecordFeatures::RecordFeatures() : parsed_(std::make_unique<Parsed>()) {}
RecordFeatures::~RecordFeatures() = default;

Result<Features> RecordFeatures::Of(const Record& record) {
  if (record.versions.step_language != kStepLanguageVersion)
    return Err("record ", record.id, " is of another step language");
  auto target = parsed_->targets.find(record.target);
  if (target == parsed_->targets.end())
    target = parsed_->targets.emplace(record.target, TRY(Target::Parse(record.target))).first;
  const Hash128 hash = HashBytes128(record.func);
  auto program = parsed_->programs.find(hash);
  if (program == parsed_->programs.end()) {
    PrimFunc func = TRY(ParsePrimFunc(record.func));
    TRY(Verify(func, Dialect::kSchedulable));
    program = parsed_->programs.emplace(hash, std::move(func)).first;
  }
  const Trace trace = TRY(ParseTrace(record.trace));
  return ExtractFeatures(NestOf(TRY(Replay(program->second, trace)).func()), target->second);
}

Json RecordWithFeatures(const Record& record, const std::optional<Features>& features) {
  Json json = ToJson(record);
  json["features"] = features ? ToJson(*features) : Json();
  return json;
}

std::string RecordWriter::Begin() const {
  if (format_ == ExportFormat::kJsonl) return "";
  if (format_ == ExportFormat::kT4) return std::string("{\"schema_version\":\"") + kT4Version + "\",\"results\":[";
  std::string header;
  for (const char* column : kColumns) header += (header.empty() ? "" : ",") + std::string(column);
  for (int i = 0; features_ && i < NumFeatures(); ++i) header += "," + FeatureNames()[i].name;
  return header + "\r\n";
}

std::string RecordWriter::Next(const Record& record) {
  std::optional<Features> features;
  if (features_) {
    Result<Features> computed = reader_.Of(record);
    if (computed.ok()) features = std::move(*computed);
    without_features_ += !features;
  }
  const bool first = count_++ == 0;
  if (format_ == ExportFormat::kCsv) return CsvLine(record, features, features_);
  if (format_ == ExportFormat::kT4) return (first ? "\n" : ",\n") + T4Of(record, features).Dump();
  return (features_ ? RecordWithFeatures(record, features) : ToJson(record)).Dump() + "\n";
}

std::string RecordWriter::End() const { return format_ == ExportFormat::kT4 ? "\n]}\n" : ""; }

}  // namespace autotune
