// What a tracker publishes about its farm, for readers in other threads. Plain values.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rpc/message.h"

namespace autotune {

// How long granted requests have waited, in classes.
struct LeaseWaits {
  static constexpr std::array<int64_t, 9> kBoundsMs = {100, 500, 1000, 5000, 10000, 30000, 60000, 300000, 1800000};
  std::array<int64_t, kBoundsMs.size() + 1> counts{};  // of waits up to each bound; the last one: beyond all of them
  int64_t sum_ms = 0;

  void Add(int64_t ms) {
    const auto bound = std::lower_bound(kBoundsMs.begin(), kBoundsMs.end(), ms);
    ++counts.at(static_cast<size_t>(bound - kBoundsMs.begin()));
    sum_ms += ms;
  }
};

// A tuning run, as its tuner has reported it.
struct FarmJob {
  rpc::JobReport report;
  int64_t began_ms = 0, heard_ms = 0;  // time since the first and the latest report
  bool here = false;                   // the tuner is on the tracker's host
};

struct FarmSnapshot {
  int64_t at = 0;                                       // ms since 1970
  rpc::StatusReply status;                              // of all keys, whole, without its errors
  std::map<std::string, std::string> waits;             // by key: why requests for it wait
  std::vector<std::pair<int64_t, std::string>> faults;  // the latest, with their times in ms before `at`
  LeaseWaits lease_waits;
  std::vector<FarmJob> jobs;
};

}  // namespace autotune
