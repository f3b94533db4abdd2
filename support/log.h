// Log lines on standard error, for operators: one line each, with time and level. Output for users of the command
// line is printed by tools/, not logged. Implemented by spdlog. Thread-safe.
#pragma once
#include <functional>
#include <sstream>
#include <string>

namespace autotune {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The initial level is the value of AUTOTUNE_LOG (debug, info, warning or error), or warning without it.
void SetLogLevel(LogLevel minimum);
void WriteLog(LogLevel level, const std::string& line);

// Makes all later lines be written inside a call of `guard`, which gets the function that writes one. So a program with
// a live line on its terminal can erase it meanwhile. Call it before there are threads that log.
void SetLogGuard(std::function<void(const std::function<void()>& write)> guard);

template <class... Parts>
void Log(LogLevel level, const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  WriteLog(level, out.str());
}

}  // namespace autotune
