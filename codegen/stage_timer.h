// StageTimer: the CPU time of the stages of a build, which other programs of the machine do not change. Not
// thread-safe: it measures the calling thread. Internal to codegen/.
#pragma once
#include <map>
#include <string>

#include "support/clock.h"

namespace autotune {

class StageTimer {
 public:
  // Borrows `times`, to which it adds milliseconds by stage.
  explicit StageTimer(std::map<std::string, double>& times) : times_(times) {}
  void End(const char* stage) {
    double now = CpuMilliseconds();
    times_[stage] += now - start_;
    start_ = now;
  }

 private:
  std::map<std::string, double>& times_;
  double start_ = CpuMilliseconds();
};

}  // namespace autotune
