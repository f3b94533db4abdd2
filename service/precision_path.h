// The order in which mixtures of precisions are worth trying. Pure functions.
#pragma once
#include <array>
#include <vector>

#include "service/precisions.h"

namespace autotune {

// A product of a network, by precision.
struct ProductCosts {
  std::array<double, std::size(EnumNames<Precision>::kNames)> seconds{};  // of its kernel and those around it
  std::array<double, std::size(EnumNames<Precision>::kNames)> error{};    // of the network, if it alone is rounded
  // Further time if the product before it in the model has another precision, since its data are then converted.
  double change_seconds = 0;
};

using Precisions = std::vector<Precision>;  // by product

// Returns the time of a mixture, and its error. The errors of products are taken as independent, so that their squares
// add up.
double PredictedSeconds(const std::vector<ProductCosts>& products, const Precisions& precisions);
double PredictedError(const std::vector<ProductCosts>& products, const Precisions& precisions);

// Returns the mixtures on the lower convex hull of predicted time and squared error, the fastest one first; each is
// slower and more exact than the one before it. The last one is the most exact of all. For a price of squared error in
// seconds, the cheapest mixture follows from dynamic programming over the products (Viterbi, 1967); the prices at which
// another mixture becomes the cheapest one follow from pairs of neighbours on the hull.
std::vector<Precisions> PrecisionPath(const std::vector<ProductCosts>& products);

// Returns a fast mixture whose predicted error is at most `limit`: the fastest one of the path, in which then runs of
// neighbouring products take another precision, as long as that saves time and stays within the limit. The run that
// saves the most comes first.
Precisions FastestWithin(const std::vector<ProductCosts>& products, double limit);

}  // namespace autotune
