// TuneView makes what the page of a tuning run shows from the run's events (service/events.h), the same that
// --json prints. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/events.h"
#include "support/json.h"
#include "tools/live/curve.h"

namespace autotune::tools {

class TuneView {
 public:
  explicit TuneView(std::string version) : version_(std::move(version)) {}

  void Take(const event::Any& event, int64_t now);  // ms since 1970
  Json State(int64_t now) const;

 private:
  struct Task {
    std::string label;
    std::optional<double> best_ms;
    Curve curve;
  };
  void On(const event::Begin& e, int64_t now);
  void On(const event::Waiting& e, int64_t now);
  void On(const event::Step& e, int64_t now);
  void On(const event::Precisions& e, int64_t now);
  void On(const event::Round& e, int64_t now);
  void On(const event::Confirmed& e, int64_t now);
  void On(const event::Choosing& e, int64_t now);
  void On(const event::Note& e, int64_t now);
  void On(const event::End& e, int64_t now);
  void On(const event::Saved& e, int64_t now);
  void On(const event::Interrupted& e, int64_t now);
  void On(const event::Trace&, int64_t) {}  // comes after the page has ended

  const std::string version_;
  std::optional<event::Begin> begin_;
  std::optional<event::Round> round_;
  std::optional<event::End> end_;
  std::optional<event::Saved> saved_;
  std::optional<event::Interrupted> interrupted_;
  std::string phase_ = "starting";
  double done_ = 0;         // of the phase, 0 to 1
  bool confirmed_ = false;  // the best times are those of comparisons in turns, which the curve does not have
  Curve best_;
  Series speeds_;               // trials per second, by second of the run
  int64_t counted_trials_ = 0;  // at the latest point of it
  double counted_seconds_ = 0;
  std::map<std::string, Task> tasks_;                             // by hash
  std::map<std::string, std::pair<std::string, int64_t>> waits_;  // what -> reason, since when
  std::vector<std::string> notes_;
  int64_t began_ = 0, ended_ = 0;  // ms since 1970; 0: not yet
};

}  // namespace autotune::tools
