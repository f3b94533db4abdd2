#include "support/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace autotune {
namespace {

spdlog::level::level_enum Translate(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("autotune", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %P %l %v");
    const char* level = std::getenv("AUTOTUNE_LOG");
    made->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
    return made;
  }();
  return *logger;
}

using LogGuard = std::function<void(const std::function<void()>& write)>;
LogGuard& Guard() {
  static LogGuard* const guard =
      new LogGuard;  // never destroyed, since other threads may log at the end of the process
  return *guard;
}

}  // namespace

void SetLogGuard(LogGuard guard) { Guard() = std::move(guard); }

void WriteLog(LogLevel level, const std::string& line) {
  auto write = [&] { Logger().log(Translate(level), line); };
  Guard() ? Guard()(write) : write();
}

}  // namespace autotune
