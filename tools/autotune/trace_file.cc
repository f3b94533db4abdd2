#include "tools/autotune/trace_file.h"

#include <tuple>

#include "support/file.h"

namespace autotune::tools {
namespace {

constexpr double kMicroseconds = 1e6;  // the format's unit

}  // namespace

void TraceFile::AddName(std::string_view kind, int64_t process, int64_t lane, std::string_view name) {
  const int64_t order = lane > 0 ? lane : process;
  for (const auto& [what, key, value] :
       {std::tuple<std::string, const char*, Json>{std::string(kind) + "_name", "name", Json(name)},
        std::tuple<std::string, const char*, Json>{std::string(kind) + "_sort_index", "sort_index", Json(order)}}) {
    Json& event = events_.emplace_back();
    event["ph"] = "M";
    event["name"] = what;
    event["pid"] = process;
    event["tid"] = lane;
    event["args"][key] = value;
  }
}

int64_t TraceFile::AddProcess(std::string_view name) {
  AddName("process", ++processes_, 0, name);
  return processes_;
}

int64_t TraceFile::AddLane(int64_t process, std::string_view name) {
  AddName("thread", process, ++lanes_, name);
  return lanes_;
}

void TraceFile::AddSpan(int64_t process, int64_t lane, std::string_view name, double begin_seconds, double seconds,
                        Json args) {
  Json& event = events_.emplace_back();
  event["ph"] = "X";
  event["name"] = name;
  event["pid"] = process;
  event["tid"] = lane;
  event["ts"] = begin_seconds * kMicroseconds;
  event["dur"] = seconds * kMicroseconds;
  if (!args.IsNull()) event["args"] = std::move(args);
}

Status TraceFile::Write(const std::string& path) const {
  Json file;
  file["displayTimeUnit"] = "ns";
  file["traceEvents"] = events_;
  return ReplaceFile(path, file.Dump() + "\n");
}

}  // namespace autotune::tools
