#include "support/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

namespace autotune {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Returns a quota in CPUs.
double QuotaOf(const std::filesystem::path& group, bool second_version) {
  double quota = 0, period = 0;  // microseconds of CPU time per period; -1 or "max": no limit
  if (second_version) {
    std::ifstream(group / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : kNone;
}

double MemoryOf(const std::filesystem::path& group, bool second_version) {
  double bytes = 0;
  std::ifstream text(group / (second_version ? "memory.max" : "memory.limit_in_bytes"));
  return text >> bytes && bytes > 0 ? bytes : kNone;  // "max" is no number
}

// Returns the least limit that `limit_of` reads in the groups of this process for a controller, along the path to the
// root.
double LeastLimit(const std::string& root, const std::string& controller,
                  double (*limit_of)(const std::filesystem::path& group, bool second_version)) {
  const std::filesystem::path groups = std::filesystem::path(root) / "sys/fs/cgroup";
  std::ifstream lines(std::filesystem::path(root) / "proc/self/cgroup");
  double least = kNone;
  for (std::string line; std::getline(lines, line);) {  // id:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool second_version = controllers == ",,";
    if (!second_version && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::filesystem::path top = second_version ? groups : groups / controller;
    // In a container the path may be that of the host, which does not exist here. The root is then the container's
    // own group.
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path()) least = std::min(least, limit_of(top / path, second_version));
    least = std::min(least, limit_of(top, second_version));
  }
  return least;
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

double CpuQuota(const std::string& root) { return LeastLimit(root, "cpu", QuotaOf); }

double MemoryLimit(const std::string& root) { return LeastLimit(root, "memory", MemoryOf); }

namespace {

std::string WordOf(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// Returns the folder in which the kernel describes a CPU's data or unified cache of a level; empty if there is none.
std::string CacheFolder(const std::string& root, int cpu, int level) {
  constexpr int kMostCaches = 8;  // greatest number of caches of one CPU
  const std::string caches = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  for (int index = 0; index < kMostCaches; ++index) {
    const std::string folder = caches + std::to_string(index);
    if (WordOf(folder + "/level") == std::to_string(level) && WordOf(folder + "/type") != "Instruction") return folder;
  }
  return "";
}

}  // namespace

int64_t CacheBytes(const std::string& root, int cpu, int level) {
  const std::string size = WordOf(CacheFolder(root, cpu, level) + "/size");  // "32K"
  const int64_t number = std::atoll(size.c_str());
  if (number < 0 || number >= int64_t{1} << 40) return 0;
  return number << (size.ends_with('M') ? 20 : size.ends_with('K') ? 10 : 0);
}

int64_t HostCacheBytes(int level) { return CacheBytes("/", 0, level); }

int HostCacheWays(int level) {
  return std::atoi(WordOf(CacheFolder("/", 0, level) + "/ways_of_associativity").c_str());
}

}  // namespace autotune
