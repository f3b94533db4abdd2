#include "support/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace autotune {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Reads a quota in CPUs: "max 100000" (no limit) or "200000 100000", microseconds of CPU time per period.
double QuotaOf(std::istream& text) {
  double quota = 0, period = 0;
  return text >> quota >> period && quota > 0 && period > 0 ? quota / period : kNone;
}

double QuotaOf(const std::filesystem::path& group, bool second_version) {
  if (second_version) {
    std::ifstream text(group / "cpu.max");
    return QuotaOf(text);
  }
  double quota = 0, period = 0;  // in microseconds; a quota of -1: no limit
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : kNone;
}

}  // namespace

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cpus.push_back(i);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int AvailableCpus() {
  double allowed = static_cast<double>(AllowedCpus().size());
  return static_cast<int>(std::max(1.0, std::min(allowed, std::ceil(CpuQuota("/")))));
}

int MostThreads() { return 16 * AvailableCpus(); }

Status CheckThreads(int64_t threads) {
  if (threads <= MostThreads()) return {};
  const int cpus = AvailableCpus();
  return Err(threads, " threads are too many: this machine offers ", cpus, cpus == 1 ? " CPU" : " CPUs",
             ", so at most ", MostThreads(), " are possible (16 for each)");
}

double CpuQuota(const std::string& root) {
  const std::filesystem::path groups = std::filesystem::path(root) / "sys/fs/cgroup";
  std::ifstream lines(std::filesystem::path(root) / "proc/self/cgroup");
  double least = kNone;
  for (std::string line; std::getline(lines, line);) {  // id:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool second_version = controllers == ",,";
    if (!second_version && controllers.find(",cpu,") == std::string::npos) continue;
    const std::filesystem::path top = second_version ? groups : groups / "cpu";
    // In a container the path may be that of the host, which does not exist here. The root is then the container's
    // own group.
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path()) least = std::min(least, QuotaOf(top / path, second_version));
    least = std::min(least, QuotaOf(top, second_version));
  }
  return least;
}

namespace {

// Returns the folder in which the kernel describes the first CPU's data or unified cache of a level; empty if there is
// none.
std::string CacheFolder(int level) {
  constexpr int kMostCaches = 8;  // greatest number of caches of one CPU
  for (int index = 0; index < kMostCaches; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    std::string its_level, type;
    std::ifstream(folder + "/level") >> its_level;
    std::ifstream(folder + "/type") >> type;
    if (its_level == std::to_string(level) && type != "Instruction") return folder;
  }
  return "";
}

}  // namespace

int64_t HostCacheBytes(int level) {
  std::ifstream file(CacheFolder(level) + "/size");
  int64_t size = 0;
  char unit = 0;
  if (!(file >> size) || size < 0) return 0;
  file >> unit;
  return size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
}

int HostCacheWays(int level) {
  std::ifstream file(CacheFolder(level) + "/ways_of_associativity");
  int ways = 0;
  return file >> ways ? ways : 0;
}

}  // namespace autotune
