#include "runtime/call_times.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "support/json.h"
#include "support/statistics.h"

namespace autotune {
namespace {

Result<std::string> TimeCalls(const PackedFunc& function, std::span<const Value> args, int64_t number, int64_t repeat) {
  using Clock = std::chrono::steady_clock;
  TRY(function.Call(args));  // untimed: brings code and data into the caches
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    Clock::time_point begin = Clock::now();
    for (int64_t call = 0; call < number; ++call) TRY(function.Call(args));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(number));
  }
  auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  Json json;
  json["mean"] = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(repeat);
  json["median"] = Median(seconds);
  json["min"] = *least;
  json["max"] = *most;
  json["results"] = ToJson(seconds);
  return json.Dump();
}

}  // namespace

Result<PackedFunc> TimeEvaluator(PackedFunc function, int64_t number, int64_t repeat) {
  constexpr int64_t kMostCalls = int64_t{1} << 40;
  if (!function) return Err("time_evaluator takes a function");
  if (number < 1 || repeat < 1 || number > kMostCalls || repeat > kMostCalls)
    return Err("time_evaluator takes a number of calls and of repeats, each at least 1");
  return PackedFunc([function = std::move(function), number, repeat](std::span<const Value> args) -> Result<Value> {
    return Value(TRY(TimeCalls(function, args, number, repeat)));
  });
}

}  // namespace autotune
