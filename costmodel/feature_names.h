// Names and units of the cost model's features (costmodel/features.h has the schema), for people and for programs that
// read printed features. Stateless, thread-safe.
#pragma once
#include <string>
#include <vector>

namespace autotune {

struct FeatureName {
  std::string name;    // such as "block0.access2.write"; all features of a missing block or access are 0
  std::string unit;    // of the quantity, such as "bytes" or "lines"; may be empty
  bool is_log = true;  // true: the feature is log2(1 + quantity); false: it is the quantity itself
  double QuantityOf(double feature) const;
};

// NumFeatures() names, in the order of the features.
const std::vector<FeatureName>& FeatureNames();

}  // namespace autotune
