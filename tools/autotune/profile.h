// The profile of a package: the time of each kernel, its distance to the roofline, and whether the times of the kernels
// add up to the network's latency. Used by `autotune bench`.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "package/load.h"
#include "support/json.h"
#include "support/result.h"
#include "tools/autotune/alone.h"
#include "tools/autotune/host.h"

namespace autotune::tools {

// Whether the medians of the kernels' times add up to the median of the network's time. All times are in seconds.
struct ProfileBalance {
  double network = 0, kernels = 0;  // median time of the network; sum of the median times of the kernels
  std::string explanation;          // why these times disagree, or how closely they agree
  double Difference() const { return network > 0 ? kernels / network - 1 : 0; }
  bool Holds() const;
};
// `clock_seconds` is the time of one reading of the clock. A profiled run reads the clock once per kernel.
ProfileBalance BalanceOf(const ProfileSamples& samples, double clock_seconds);

// Samples a profile by `add`. If the sum of the kernels' times disagrees with the network's time, something has
// disturbed the measurement, and it is repeated, at most twice.
Result<ProfileSamples> MeasureProfile(const std::function<Status(ProfileSamples&)>& add, double clock_seconds);
// The same in this process: makes at least five runs, and then more until `seconds` have passed.
Result<ProfileSamples> MeasureProfile(GraphExecutor& executor, double seconds, Alone& alone);
// Returns the seconds that one reading of the clock takes.
double ClockSeconds();

struct ProfileRow {
  std::string node;         // name in the model
  std::string task, label;  // short id of the task, and its operators and shapes; both empty for a copy
  bool winograd = false;    // true: Winograd's algorithm, though `flops` counts the operations of the direct one
  // Median and shortest time of one run in seconds; operations, and bytes read and written, of one run.
  double seconds = 0, least = 0, flops = 0, bytes = 0;
  std::optional<DType> small_products;  // it multiplies bytes or bf16 instead of f32 (SmallProductsOf)
  Roof roof;
  double RoofShare() const { return seconds > 0 ? roof.seconds / seconds : 0; }  // 1: as fast as the machine allows
};
// `times` has one entry for each row.
std::vector<ProfileRow> ProfileRows(const PackageInfo& info, const std::vector<NodeTime>& times,
                                    const Roofline& roofline);

// An unknown roofline is left out. `width`: columns of the terminal, to which names are cut; 0: names in full.
std::string ProfileTable(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, const Roofline& roofline,
                         int threads, int width = 0);
Json ProfileJson(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, const Roofline& roofline);

}  // namespace autotune::tools
