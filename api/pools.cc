// Pools of threads of the C API.
#include <algorithm>
#include <cmath>
#include <utility>

#include "api/handles.h"
#include "support/cpus.h"

namespace autotune::api {
namespace {

constexpr double kMostSpinSeconds = 3600;

Result<ThreadPoolOptions> OptionsOf(const autotune_pool_options* options) {
  ThreadPoolOptions chosen{.shared = true};
  if (!options) return chosen;
  if (options->size < sizeof(autotune_pool_options))
    return Invalid("the options have no valid size; begin with AUTOTUNE_POOL_OPTIONS");
  if (options->threads < 0) return Invalid("the number of threads is ", options->threads);
  TRY(CheckThreads(options->threads));
  chosen.num_threads = options->threads;
  if (std::isnan(options->spin_seconds) || options->spin_seconds > kMostSpinSeconds)
    return Invalid("spin_seconds must be at most ", kMostSpinSeconds, ", got ", options->spin_seconds);
  if (options->spin_seconds >= 0) chosen.spin_seconds = options->spin_seconds;
  if (options->num_cpus > 0) TRY(NotNull(options->cpus, "cpus"));
  const std::vector<int> allowed = AllowedCpus();
  for (size_t i = 0; i < options->num_cpus; ++i) {
    const int cpu = options->cpus[i];
    if (std::ranges::find(allowed, cpu) == allowed.end()) return Invalid("this process may not use the CPU ", cpu);
    if (std::ranges::find(chosen.cpus, cpu) == chosen.cpus.end()) chosen.cpus.push_back(cpu);
  }
  chosen.foreign = {options->parallel_for, options->user};
  return chosen;
}

}  // namespace
}  // namespace autotune::api

using namespace autotune;       // NOLINT: the functions of the API lie in the global namespace
using namespace autotune::api;  // NOLINT

extern "C" {

int autotune_pool_create(const autotune_pool_options* options, autotune_pool** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(out, "out"));
    auto pool = std::make_shared<ThreadPool>(TRY(OptionsOf(options)));
    *out = new autotune_pool{std::move(pool)};
    return {};
  });
}

void autotune_pool_free(autotune_pool* pool) { Free(pool); }

}  // extern "C"
