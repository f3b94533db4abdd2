#include "runtime/device_timing.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "support/integer.h"

namespace autotune {
namespace {

// Calls of one graph. With fewer, the pause between two graphs, about a microsecond, would show in the times of short
// kernels. More make the graph slower to record. [chosen]
constexpr int64_t kMostCallsPerGraph = 256;
constexpr int64_t kMuchLonger = 4;  // ratio of a burst to a graph from which longer graphs are recorded [chosen]
constexpr int kAttempts = 3;        // most measurements, if the clocks are unsteady [chosen]

// Makes the calls of bursts. Calls are numbered; call c takes copy c % rotation.
class Bursts {
 public:
  Bursts(Device& device, const DeviceCall& call, int64_t rotation)
      : device_(device), call_(call), rotation_(rotation) {}

  Result<BurstTime> Run(int64_t first, int64_t count) {
    // The first call may be the only one, if it is hopelessly slow; then a graph would be wasted.
    if (first > 0 && has_graphs_) TRY(Record(count));
    if (first == 0 || !has_graphs_) {
      const double seconds = TRY(device_.Time([&]() -> Status {
        for (int64_t i = 0; i < count; ++i) TRY(call_((first + i) % rotation_));
        return {};
      }));
      return BurstTime{seconds, count};
    }
    const int64_t launches = CeilDiv(count, calls_per_graph_);
    const double seconds = TRY(device_.Time([&]() -> Status {
      for (int64_t i = 0; i < launches; ++i) TRY(graphs_[static_cast<size_t>((next_ + i) % Parts())]->Launch());
      return {};
    }));
    next_ = (next_ + launches) % Parts();
    return BurstTime{seconds, launches * calls_per_graph_};
  }

 private:
  // Returns the number of graphs after which all copies have had a turn.
  int64_t Parts() const { return CeilDiv(rotation_, calls_per_graph_); }

  // Records the graphs that the next `count` calls need, if this device has graphs.
  Status Record(int64_t count) {
    // A slow first call makes the first burst too short.
    if (graphs_.empty() || (count >= kMuchLonger * calls_per_graph_ && calls_per_graph_ < kMostCallsPerGraph)) {
      graphs_.clear();
      next_ = 0;
      calls_per_graph_ = std::clamp<int64_t>(count, 1, kMostCallsPerGraph);
    }
    const int64_t needed = std::min(Parts(), next_ + CeilDiv(count, calls_per_graph_));
    while (static_cast<int64_t>(graphs_.size()) < needed) {
      const int64_t begin = static_cast<int64_t>(graphs_.size()) * calls_per_graph_;
      std::shared_ptr<DeviceGraph> graph = TRY(device_.Capture([&]() -> Status {
        for (int64_t i = 0; i < calls_per_graph_; ++i) TRY(call_((begin + i) % rotation_));
        return {};
      }));
      has_graphs_ = graph != nullptr;
      if (!has_graphs_) return {};
      graphs_.push_back(std::move(graph));
    }
    return {};
  }

  Device& device_;
  const DeviceCall& call_;
  const int64_t rotation_;
  bool has_graphs_ = true;
  int64_t calls_per_graph_ = 1;
  std::vector<std::shared_ptr<DeviceGraph>> graphs_;  // graph p has the calls from p * calls_per_graph_ on
  int64_t next_ = 0;                                  // graph of the next burst
};

}  // namespace

Result<DeviceTiming> TimeOnDevice(Device& device, const TimeOptions& options, const DeviceCall& call,
                                  int64_t rotation) {
  DeviceTiming result;
  int64_t calls = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Device::Reading before = TRY(device.Settle());
    Bursts bursts(device, call, rotation);
    result.timing =
        TRY(EvaluateBursts(options, [&](int64_t first, int64_t count) { return bursts.Run(first, count); }));
    calls += result.timing.calls;
    result.state = device.State();  // before the clocks fall again
    const Device::Reading after = TRY(device.Settle());
    result.state.reference_seconds = after.seconds;
    result.state.steady = before.steady && after.steady && AreEqualReadings(before.seconds, after.seconds);
    if (result.state.steady || result.timing.cut_off) break;
  }
  result.timing.calls = calls;
  return result;
}

}  // namespace autotune
