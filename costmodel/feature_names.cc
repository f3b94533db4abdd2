#include "costmodel/feature_names.h"

#include <cmath>
#include <iterator>
#include <string_view>

#include "costmodel/feature_schema.h"
#include "costmodel/features.h"
#include "support/check.h"

namespace autotune {
namespace {

struct Entry {
  std::string_view name, unit;
  bool is_log = true;
};

constexpr Entry kFunction[] = {{"flops", "operations"}, {"parameter_bytes", "bytes"}, {"blocks", "", false},
                               {"loops", "", false},    {"parallel", "iterations"},   {"intermediate_bytes", "bytes"},
                               {"prefetched", "lines"}, {"prefetched_ahead", "bytes"}};
constexpr Entry kBlock[] = {{"fma", "per iteration"},
                            {"add", "per iteration"},
                            {"mul", "per iteration"},
                            {"div", "per iteration"},
                            {"compare", "per iteration"},
                            {"transcendental", "per iteration"},
                            {"index", "per iteration"},
                            {"flops", "operations"},
                            {"iterations", ""},
                            {"reduction", "iterations"},
                            {"parallel", "iterations"},
                            {"iterations_per_task", ""},
                            {"vector_lanes", ""},
                            {"unrolled", "iterations"},
                            {"depth", "loops", false},
                            {"output_in_registers", "0 or 1", false},
                            {"register_tile", "vectors", false},
                            {"padding", "iterations per useful one", false},
                            {"imbalance", "time per time of an even load", false},
                            {"guarded", "0 no, 1 yes, 2 by lane", false},
                            {"working_set", "bytes"},
                            {"working_set_lines", "lines"}};
constexpr Entry kAccess[] = {{"element", "bytes", false},
                             {"write", "0 no, 1 yes, 2 streaming", false},
                             {"contiguity", "0 scalar, 1 same, 2 contiguous, 3 strided", false},
                             {"unique", "bytes"},
                             {"registers.bytes", "bytes brought in"},
                             {"registers.lines", "lines brought in"},
                             {"l1.bytes", "bytes brought in"},
                             {"l1.lines", "lines brought in"},
                             {"l2.bytes", "bytes brought in"},
                             {"l2.lines", "lines brought in"},
                             {"l3.bytes", "bytes brought in"},
                             {"l3.lines", "lines brought in"},
                             {"reuse", "uses per element"},
                             {"prefetched", "lines"},
                             {"prefetched_ahead", "bytes"}};
static_assert(std::size(kFunction) == schema::kFunction && std::size(kBlock) == schema::kArithmetic + schema::kShape &&
              std::size(kAccess) == schema::kPerAccess);

std::vector<FeatureName> MakeNames() {
  std::vector<FeatureName> names;
  auto add = [&](const std::string& prefix, const Entry& entry) {
    names.push_back({prefix + std::string(entry.name), std::string(entry.unit), entry.is_log});
  };
  for (const Entry& entry : kFunction) add("function.", entry);
  for (int block = 0; block < schema::kBlocks; ++block) {
    const std::string prefix = "block" + std::to_string(block) + ".";
    for (const Entry& entry : kBlock) add(prefix, entry);
    for (int access = 0; access < schema::kAccesses; ++access) {
      for (const Entry& entry : kAccess) add(prefix + "access" + std::to_string(access) + ".", entry);
    }
    for (int depth = 0; depth < schema::kIntensity; ++depth)
      names.push_back({prefix + "intensity" + std::to_string(depth), "operations per byte"});
  }
  CHECK(static_cast<int>(names.size()) == NumFeatures()) << "features and names differ: change them together";
  return names;
}

}  // namespace

double FeatureName::QuantityOf(double feature) const { return is_log ? std::exp2(feature) - 1 : feature; }

const std::vector<FeatureName>& FeatureNames() {
  static const std::vector<FeatureName> names = MakeNames();
  return names;
}

}  // namespace autotune
