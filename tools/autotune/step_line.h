// StepLine tells how far the steps of a calibration are: as the live line of a terminal, else every ten seconds as a
// line. Not thread-safe.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace autotune::tools {

class StepLine {
 public:
  StepLine() = default;
  ~StepLine();
  StepLine(const StepLine&) = delete;

  // The arguments are those of StepObserver (service/calibration.h).
  void Tell(const std::string& step, int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string step_;
  Clock::time_point begin_;
  double told_ = 0;  // seconds since the step's begin
};

}  // namespace autotune::tools
