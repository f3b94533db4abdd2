// The precisions of a network's products, as they were chosen (service/precision_choice.h). Values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "frontend/onnx/quantizer.h"
#include "records/choice.h"
#include "support/fields.h"

namespace autotune {

// What rounding may cost a network (NetworkError in service/network_error.h). 0: no bound.
struct PrecisionBound {
  double max_error = 0;      // of the worst output: ||y - y32|| / ||y32||
  double min_agreement = 0;  // share of the first output's rows whose largest number stays at its place
  AUTOTUNE_FIELDS(max_error, min_agreement)
};

// The precision of a product in the network that was chosen.
struct ProductPrecision {
  std::string node, op;
  Precision precision = Precision::kF32;
  double seconds = 0, f32_seconds = 0;  // of its kernel and those around it, on one thread
  double error = 0;                     // of the network, if this product alone is rounded so
  double share = 0;                     // of the squared errors of all products, 0 to 1
  AUTOTUNE_FIELDS(node, op, precision, seconds, f32_seconds, error, share)
};

// A network that was measured.
struct PrecisionPoint {
  std::string name;                         // "f32", "bf16", "int8", or "mixture 3"
  int64_t f32 = 0, bf16 = 0, int8 = 0;      // numbers of products
  std::vector<NetworkComparison> compared;  // with f32, at each number of threads
  double speedup = 1;                       // over f32: geometric mean over the numbers of threads
  double error = 0;                         // NetworkError
  std::string output;                       // the worst one
  double agreement = 1;                     // NetworkError::Agreement
  bool holds = false;                       // the bound
  bool best = false;                        // no other point is faster and at least as exact
  bool chosen = false;
  std::vector<Precision> precisions;  // parallel to PrecisionChoice::products
  AUTOTUNE_FIELDS(name, f32, bf16, int8, compared, speedup, error, output, agreement, holds, best, chosen, precisions)
};

struct PrecisionChoice {
  PrecisionBound bound;
  int64_t samples = 0;
  std::vector<ProductPrecision> products;
  std::vector<PrecisionPoint> points;  // in the order in which they were measured
  std::vector<std::string> notes;      // for the user
  AUTOTUNE_FIELDS(bound, samples, products, points, notes)

  const PrecisionPoint& chosen() const { return *std::ranges::find(points, true, &PrecisionPoint::chosen); }
};

}  // namespace autotune
