// MachineState: notices when the whole machine becomes slower or faster. A shared machine has states (clock frequency,
// neighbours) that last from seconds to minutes and differ by a third. A reference kernel, the same in every batch,
// shows the state. Times of an unusual state are compared as multiples of the reference. A plain value.
#pragma once
#include <string>
#include <vector>

namespace autotune {

class MachineState {
 public:
  // Relative deviation of the reference's time from its median above which the state is unusual. The reference's time
  // varies by 2 to 3 % while a state lasts, and by 25 % or more between states that matter. Any threshold in between
  // separates them.
  static constexpr double kThreshold = 0.1;

  // Adds the reference's time in one more batch. Ignores 0 (the time is unknown).
  void Add(double reference_seconds);

  // Returns the median of the reference's times; 0 if there is none yet.
  double Usual() const { return usual_; }
  // Returns false if the reference took longer or shorter than usual by more than kThreshold.
  bool IsUsual(double reference_seconds) const;
  // Converts `seconds`, measured beside the reference, to the usual state. A time of an unusual state is scaled. A time
  // of the usual state stays unchanged, since scaling would only add the reference's noise.
  double Comparable(double seconds, double reference_seconds) const;
  // Returns "usual", "31 % slower" or "12 % faster".
  std::string Name(double reference_seconds) const;

 private:
  std::vector<double> references_;
  double usual_ = 0;
};

}  // namespace autotune
