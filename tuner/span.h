// Span: a stretch of time of a tuning run, for a trace of the run (autotune tune --trace).
#pragma once
#include <functional>
#include <string>

namespace autotune {

struct Span {
  std::string lane;           // "search", "build", or the device that measured a candidate
  std::string name;           // what happened, such as "build 16 candidates", or the label of a candidate's task
  double begin = 0, end = 0;  // SteadySeconds (support/clock.h)
  std::string task, status;   // of a candidate: the hash of its task, and its outcome
};

// Called on any thread, so it must be thread-safe and return quickly. The spans of a lane do not overlap.
using SpanObserver = std::function<void(const Span&)>;

}  // namespace autotune
