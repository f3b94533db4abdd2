#include "support/process_stat.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace autotune {

std::optional<ProcessStat> StatOfProcess(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The second field is the program's name in parentheses, which may itself contain parentheses and spaces.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  ProcessStat stat;
  std::string skipped;
  double user = 0, system = 0;
  fields >> stat.state;                                // field 3
  for (int i = 4; i < 14; ++i) fields >> skipped;      // to field 14
  fields >> user >> system;                            // fields 14 and 15
  for (int i = 16; i < 22; ++i) fields >> skipped;     // to field 22
  if (!(fields >> stat.started)) return std::nullopt;  // field 22
  stat.cpu_ms = (user + system) * 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return stat;
}

double WaitedOfProcess(pid_t pid) {
  double waited_ms = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && thread != end; thread.increment(error)) {
    std::ifstream file(thread->path() / "schedstat");
    int64_t run_ns = 0, wait_ns = 0;
    if (file >> run_ns >> wait_ns) waited_ms += static_cast<double>(wait_ns) / 1e6;
  }
  return waited_ms;
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot;
}

}  // namespace autotune
