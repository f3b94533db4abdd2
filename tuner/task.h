// TuneTask: one fused subgraph to be tuned for one target, with its compute alternatives and its number of occurrences
// in the network. A plain value.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "support/hash.h"

namespace autotune {

struct TaskAlternative {
  std::string name;  // stored in records
  PrimFunc func;     // unscheduled; the first alternative defines the result
};

struct TuneTask {
  Hash128 hash;                     // hash of the subgraph's canonical text
  std::string label;                // for people: "conv2d 1x56x56x64, 3x3, 64"
  int weight = 1;                   // occurrences in the network
  double flops = 0;                 // operations of one run
  PrimFunc reference;               // te::ToReference of the first alternative
  std::optional<PrimFunc> bounded;  // te::ToBoundedReference of the first alternative
  bool takes_steps = false;         // te::TakesSteps of the first alternative
  bool small_products = false;      // SmallProductsOf the first alternative: the peak of f32 is no limit
  std::vector<int64_t> full_range;  // te::FullRangeInputs of the first alternative
  std::vector<TaskAlternative> alternatives;
};

}  // namespace autotune
