// StageTimer: measures the CPU time of each stage of a build. Unlike elapsed time, CPU time does not grow when other
// programs use the machine. Not thread-safe: it measures the calling thread. Internal to codegen/.
#pragma once
#include <map>
#include <string>

#include "support/clock.h"

namespace autotune {

class StageTimer {
 public:
  // Borrows `times`, which gets the milliseconds of each stage.
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
