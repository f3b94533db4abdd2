// MachineState: notices when a whole machine becomes slower or faster. A shared machine has states (clock frequency,
// neighbours) that last from seconds to minutes and differ by a third. A reference kernel, the same in every batch,
// shows the state. Times of an unusual state are compared as multiples of the reference. Each device has a usual state
// of its own, since devices of one key differ. A plain value.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace autotune {

// The reference's time in one batch, and the device that ran the batch.
struct ReferenceTime {
  ReferenceTime(double in_seconds = 0, std::string on_device = "")
      : seconds(in_seconds), device(std::move(on_device)) {}
  double seconds;  // 0: unknown
  std::string device;
};

class MachineState {
 public:
  // Relative deviation of the reference's time from its median above which the state is unusual. The reference's time
  // varies by 2 to 3 % while a state lasts, and by 25 % or more between states that matter. Any threshold in between
  // separates them.
  static constexpr double kThreshold = 0.1;

  // Adds the reference's time in one more batch. Ignores 0 (the time is unknown).
  void Add(const ReferenceTime& reference);

  // Returns the median of the reference's times on a device; 0 if there is none yet.
  double Usual(const std::string& device = "") const;
  // Returns false if the reference took longer or shorter than usual by more than kThreshold.
  bool IsUsual(const ReferenceTime& reference) const;
  // Converts `seconds`, measured beside the reference, to the usual state. A time of an unusual state is scaled. A time
  // of the usual state stays unchanged, since scaling would only add the reference's noise.
  double Comparable(double seconds, const ReferenceTime& reference) const;
  // Returns "usual", "31 % slower" or "12 % faster".
  std::string Name(const ReferenceTime& reference) const;

 private:
  struct Device {
    std::vector<double> references;
    double usual = 0;
  };
  std::map<std::string, Device> devices_;
};

}  // namespace autotune
