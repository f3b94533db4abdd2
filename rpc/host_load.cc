#include "rpc/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace autotune::rpc {

std::optional<double> BusyMillis(const std::string& stat_file, const std::vector<int>& cores) {
  const double tick_ms = 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file(stat_file);
  double busy = 0;
  size_t found = 0;
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    int core = -1;
    double user = 0, nice = 0, system = 0, idle = 0, disk = 0, interrupts = 0, soft = 0, stolen = 0;
    // The first line, "cpu ", has the sums of all cores.
    if (std::sscanf(line.c_str(), "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &core, &user, &nice, &system, &idle, &disk,
                    &interrupts, &soft, &stolen) < 8)
      continue;
    if (std::ranges::find(cores, core) == cores.end()) continue;
    busy += (user + nice + system + interrupts + soft + stolen) * tick_ms;
    ++found;
  }
  return found == cores.size() && found > 0 ? std::optional(busy) : std::nullopt;
}

double OwnMillis() {
  double ms = 0;
  for (int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(whose, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      ms += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  }
  return ms;
}

bool HostLoad::IsDue(int64_t now) const {
  if (!begun_) return now >= next_turn_;
  return watched_ms_ + static_cast<double>(now - at_) >= static_cast<double>(kWindowMs);
}

void HostLoad::See(const CpuTimes& times, int64_t now) {
  const std::optional<CpuTimes> before = std::exchange(begun_, times);
  const int64_t since = std::exchange(at_, now);
  if (!before) {
    next_turn_ = now + kBetweenTurnsMs;
    return;
  }
  watched_ms_ += static_cast<double>(now - since);
  others_ms_ += (times.all - before->all) - (times.ours - before->ours);
  if (watched_ms_ < static_cast<double>(kWindowMs)) return;
  foreign_ = others_ms_ / watched_ms_;
  watched_ms_ = others_ms_ = 0;
}

bool HostLoad::WasQuiet(const CpuTimes& times, int64_t now) const {
  if (!begun_) return true;
  const double others = (times.all - begun_->all) - (times.ours - begun_->ours);
  constexpr double kTickMs = 10;  // in which /proc/stat counts: USER_HZ
  return others <= kQuiet * static_cast<double>(now - at_) + kTickMs;
}

std::string HostLoad::Text() const {
  if (Foreign() == 0) return "";
  char text[80];
  std::snprintf(text, sizeof text, "other processes used %.1f of the device's processors", foreign_);
  return text;
}

}  // namespace autotune::rpc
