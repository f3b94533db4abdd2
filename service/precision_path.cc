#include "service/precision_path.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autotune {
namespace {

constexpr size_t kCount = std::size(EnumNames<Precision>::kNames);

double Square(double x) { return x * x; }

// A mixture on the hull.
struct Corner {
  Precisions precisions;
  double seconds = 0, square = 0;  // of the error
};

Corner CornerOf(const std::vector<ProductCosts>& products, Precisions precisions) {
  const double seconds = PredictedSeconds(products, precisions);
  const double square = Square(PredictedError(products, precisions));
  return {std::move(precisions), seconds, square};
}

// Returns the mixture with the least sum of `of_time` * seconds + `of_error` * squared error.
Corner Cheapest(const std::vector<ProductCosts>& products, double of_time, double of_error) {
  const size_t n = products.size();
  std::vector<std::array<size_t, kCount>> before(n);  // the precision of the product before, by the product's own
  std::array<double, kCount> costs{};
  for (size_t i = 0; i < n; ++i) {
    const ProductCosts& product = products[i];
    std::array<double, kCount> next{};
    for (size_t p = 0; p < kCount; ++p) {
      next[p] = std::numeric_limits<double>::infinity();
      for (size_t q = 0; q < kCount; ++q) {
        const double cost = costs[q] + (i > 0 && p != q ? of_time * product.change_seconds : 0);
        if (cost < next[p]) next[p] = cost, before[i][p] = q;
      }
      next[p] += of_time * product.seconds[p] + of_error * Square(product.error[p]);
    }
    costs = next;
  }
  size_t p = static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  Precisions precisions(n);
  for (size_t i = n; i-- > 0;) {
    precisions[i] = static_cast<Precision>(p);
    p = before[i][p];
  }
  return CornerOf(products, std::move(precisions));
}

// Adds the corners between two of the hull.
void AddBetween(const std::vector<ProductCosts>& products, const Corner& fast, const Corner& exact,
                std::vector<Precisions>& path) {
  constexpr double kRounding = 1e-9;  // of sums of many terms, relative
  const double of_error = exact.seconds - fast.seconds, of_time = fast.square - exact.square;
  if (!(of_error > 0 && of_time > 0)) return;
  const Corner corner = Cheapest(products, of_time, of_error);
  const double line = of_time * fast.seconds + of_error * fast.square;
  const double cost = of_time * corner.seconds + of_error * corner.square;
  if (!(cost < line * (1 - kRounding))) return;  // nothing is below the line between them
  AddBetween(products, fast, corner, path);
  path.push_back(corner.precisions);
  AddBetween(products, corner, exact, path);
}

}  // namespace

double PredictedSeconds(const std::vector<ProductCosts>& products, const Precisions& precisions) {
  double sum = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    sum += products[i].seconds[static_cast<size_t>(precisions[i])];
    if (i > 0 && precisions[i] != precisions[i - 1]) sum += products[i].change_seconds;
  }
  return sum;
}

double PredictedError(const std::vector<ProductCosts>& products, const Precisions& precisions) {
  double sum = 0;
  for (size_t i = 0; i < products.size(); ++i) sum += Square(products[i].error[static_cast<size_t>(precisions[i])]);
  return std::sqrt(sum);
}

Precisions FastestWithin(const std::vector<ProductCosts>& products, double limit) {
  const std::vector<Precisions> path = PrecisionPath(products);
  const auto within = [&](const Precisions& mixture) { return PredictedError(products, mixture) <= limit; };
  const auto found = std::ranges::find_if(path, within);
  Precisions best = found == path.end() ? path.back() : *found;
  const size_t n = products.size();
  for (bool changes = true; changes;) {
    changes = false;
    double most = 1e-9 * PredictedSeconds(products, best);  // less is rounding
    size_t from = 0, to = 0;
    Precision precision{};
    // Sums over a run grow with it, so that each run takes constant time.
    const double square = Square(PredictedError(products, best));
    for (size_t p = 0; p < kCount; ++p) {
      for (size_t i = 0; i < n; ++i) {
        double seconds = 0, more = 0;  // that the run saves, and its further squared error
        for (size_t j = i; j < n; ++j) {
          const ProductCosts& product = products[j];
          const auto now = static_cast<size_t>(best[j]);
          seconds += product.seconds[now] - product.seconds[p];
          more += Square(product.error[p]) - Square(product.error[now]);
          if (j > 0 && best[j - 1] != best[j]) seconds += product.change_seconds;
          const bool begins = i > 0 && best[i - 1] != static_cast<Precision>(p);
          double changed = begins ? products[i].change_seconds : 0;
          if (j + 1 < n) {
            if (best[j + 1] != static_cast<Precision>(p)) changed += products[j + 1].change_seconds;
            if (best[j + 1] != best[j]) changed -= products[j + 1].change_seconds;
          }
          if (square + more > limit * limit || seconds - changed <= most) continue;
          most = seconds - changed;
          from = i, to = j + 1;
          precision = static_cast<Precision>(p);
          changes = true;
        }
      }
    }
    std::fill(best.begin() + static_cast<std::ptrdiff_t>(from), best.begin() + static_cast<std::ptrdiff_t>(to),
              precision);
  }
  return best;
}

std::vector<Precisions> PrecisionPath(const std::vector<ProductCosts>& products) {
  const Corner fast = Cheapest(products, 1, 0);
  const Corner exact = CornerOf(products, Precisions(products.size(), Precision::kF32));
  std::vector<Precisions> path = {fast.precisions};
  AddBetween(products, fast, exact, path);
  if (fast.square > exact.square) path.push_back(exact.precisions);
  return path;
}

}  // namespace autotune
