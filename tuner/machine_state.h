// MachineState: notices when the whole machine becomes slower or faster. A shared machine has states (clock frequency,
// neighbours) that last from seconds to minutes and differ by a third. A reference kernel, the same in every batch,
// shows the state. Times of an unusual state are compared as multiples of the reference. A plain value.
#pragma once
#include <string>
#include <vector>

namespace autotune {

class MachineState {
 public:
  // The least of several bursts of one kernel repeats within 2 to 3 % while the state stays the same; states that
  // matter differ by 25 % and more. Anything between separates them.
  static constexpr double kThreshold = 0.1;

  // The reference's time in one more batch; 0 (it was not measured there) is ignored.
  void Add(double reference_seconds);

  // The median of the reference's times; 0: none yet.
  double Usual() const { return usual_; }
  // False if the reference took longer or shorter than usual by more than kThreshold.
  bool IsUsual(double reference_seconds) const;
  // What `seconds`, measured beside the reference, would be in the usual state: scaled if the state was another one,
  // else unchanged, since within one state scaling would only add the reference's own noise.
  double Comparable(double seconds, double reference_seconds) const;
  // "usual", "31 % slower", "12 % faster".
  std::string Name(double reference_seconds) const;

 private:
  std::vector<double> references_;
  double usual_ = 0;
};

}  // namespace autotune
