#include "tools/live/curve.h"

#include <iterator>
#include <string>

namespace autotune::tools {

void Series::Add(int64_t at, double value) {
  points_[at] = value;
  if (points_.size() <= kMost) return;
  bool drop = false;
  for (auto point = std::next(points_.begin()); std::next(point) != points_.end(); drop = !drop)
    point = drop ? points_.erase(point) : std::next(point);
}

Json Series::State() const {
  Json::Object state;
  for (const auto& [at, value] : points_) state.emplace(std::to_string(at), value);
  return state;
}

void Curve::Add(int64_t trials, double best) {
  if (!(best > 0)) return;
  // The latest point stays only if it differs from the one before it.
  if (points_.size() >= 2) {
    const auto last = std::prev(points_.end()), before = std::prev(last);
    if (last->second == before->second && trials > last->first) points_.erase(last);
  }
  Series::Add(trials, best);
}

}  // namespace autotune::tools
