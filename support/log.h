// Log lines on standard error, for operators: one line each, with time and level. Output for users of the command
// line is printed by tools/, not logged. Implemented by spdlog. Thread-safe.
#pragma once
#include <functional>
#include <sstream>
#include <string>

namespace autotune {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The value of AUTOTUNE_LOG (debug, info, warning or error) is the least level that is printed; without it, warning.
void WriteLog(LogLevel level, const std::string& line);

// From now on, `guard` is called for each line, with the function that writes the line. A program with a live line
// erases it around that call. Call this before any thread logs.
void SetLogGuard(std::function<void(const std::function<void()>& write)> guard);

template <class... Parts>
void Log(LogLevel level, const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  WriteLog(level, out.str());
}

}  // namespace autotune
