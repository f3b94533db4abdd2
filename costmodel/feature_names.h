// Names and units of the features that the cost model sees (costmodel/features.h has the schema), for people and for
// other programs that read exported features. Stateless, thread-safe.
#pragma once
#include <string>
#include <vector>

namespace autotune {

struct FeatureName {
  std::string name;    // "block0.access2.write": a block or access that the program lacks is all zeros
  std::string unit;    // of the quantity: "bytes", "lines", ...; may be empty
  bool is_log = true;  // the feature is log2(1 + quantity), else the quantity itself
  double QuantityOf(double feature) const;
};

// One per feature, in their order: NumFeatures() of them.
const std::vector<FeatureName>& FeatureNames();

}  // namespace autotune
