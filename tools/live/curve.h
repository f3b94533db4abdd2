// Points of a chart that grows, of limited number. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>

#include "support/json.h"

namespace autotune::tools {

// Values by a whole number, such as a second. Of very many points, every other one is dropped.
class Series {
 public:
  static constexpr size_t kMost = 240;  // points [chosen]

  void Add(int64_t at, double value);
  Json State() const;  // {"at": value, ...}

 protected:
  std::map<int64_t, double> points_;
};

// The best times of a run over its trials: the points at which it improved, and the latest one.
class Curve : public Series {
 public:
  void Add(int64_t trials, double best);
};

}  // namespace autotune::tools
