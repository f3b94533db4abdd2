// Log lines on standard error, for operators: one line each, with time and level. What a user of the command line reads
// is printed by tools/, not logged. spdlog does the work behind log.cc. Thread-safe.
#pragma once
#include <sstream>
#include <string>

namespace autotune {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogLevel(
    LogLevel minimum);  // initially the level named by AUTOTUNE_LOG (debug, info, warning, error), else warning
void WriteLog(LogLevel level, const std::string& line);

template <class... Parts>
void Log(LogLevel level, const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  WriteLog(level, out.str());
}

}  // namespace autotune
