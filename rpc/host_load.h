// HostLoad: notices that other processes compute on a device's cores while the device server measures. A plain state
// machine without clock and files: its input are counters of processor time. Not thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotune::rpc {

// Counters that only grow, in milliseconds of processor time.
struct CpuTimes {
  double all = 0;   // of all processes, on the device's cores
  double ours = 0;  // of the server and its runners
};

// Returns the time in which these cores were busy since the host's start, from a file like /proc/stat. The time that a
// hypervisor gave to other machines (steal) counts, too. Returns nothing if the file does not have it.
std::optional<double> BusyMillis(const std::string& stat_file, const std::vector<int>& cores);

// Returns the processor time of this process and of its children that have ended.
double OwnMillis();

class HostLoad {
 public:
  // Time of measurements that is judged as a whole. The kernel counts in ticks of up to 10 ms per core, so a judgement
  // of half a second is exact to a few percent of a core.
  static constexpr int64_t kWindowMs = 500;
  // Processors that other processes use on a quiet host at most. One process that never sleeps uses 1. [chosen]
  static constexpr double kQuiet = 0.25;
  // Least time between two turns that are watched, since reading the counters takes a twentieth of a millisecond. So
  // the watch of very short turns takes 0.2 % of the time.
  static constexpr int64_t kBetweenTurnsMs = 50;

  // Returns true if the counters should be read: at the beginning of a turn, or during it.
  bool IsDue(int64_t now) const;
  // Takes the counters: at the beginning of a turn, in which only the server should compute, during it, or at its end.
  void See(const CpuTimes& times, int64_t now);
  void End() { begun_.reset(); }
  bool Watches() const { return begun_.has_value(); }  // during a turn

  // Returns the number of processors that others used in the latest window, if that is more than kQuiet. Else 0.
  double Foreign() const { return foreign_ > kQuiet ? foreign_ : 0; }
  // Returns whether others used at most kQuiet processors since the turn began, or since the latest See.
  bool WasQuiet(const CpuTimes& times, int64_t now) const;
  // Describes it: "other processes used 1.0 of the device's processors"; empty if the host was quiet.
  std::string Text() const;

 private:
  std::optional<CpuTimes> begun_;  // at the beginning of the turn, or at the latest See
  int64_t at_ = 0;                 // time of begun_
  int64_t next_turn_ = 0;
  double watched_ms_ = 0, others_ms_ = 0;  // in the present window
  double foreign_ = 0;
};

}  // namespace autotune::rpc
