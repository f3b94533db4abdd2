// A file of Chrome's trace events, which Perfetto and speedscope open: processes with lanes, and spans of time in them.
// The spans of one lane must nest. Not thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "support/json.h"
#include "support/result.h"

namespace autotune::tools {

class TraceFile {
 public:
  // Adds a group of lanes. Groups and the lanes of one are shown in the order in which they were added.
  int64_t AddProcess(std::string_view name);
  int64_t AddLane(int64_t process, std::string_view name);
  // `args` is an object, which the viewer shows for a selected span.
  void AddSpan(int64_t process, int64_t lane, std::string_view name, double begin_seconds, double seconds,
               Json args = {});
  Status Write(const std::string& path) const;

 private:
  void AddName(std::string_view kind, int64_t process, int64_t lane, std::string_view name);

  Json::Array events_;
  int64_t processes_ = 0, lanes_ = 0;
};

}  // namespace autotune::tools
