// Log lines on standard error, for operators: one line each, with time and level. Output for users of the command
// line is printed by tools/, not logged. Implemented by spdlog. Thread-safe.
#pragma once
#include <sstream>
#include <string>

namespace autotune {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The initial level is the value of AUTOTUNE_LOG (debug, info, warning or error), or warning without it.
void SetLogLevel(LogLevel minimum);
void WriteLog(LogLevel level, const std::string& line);

template <class... Parts>
void Log(LogLevel level, const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  WriteLog(level, out.str());
}

}  // namespace autotune
