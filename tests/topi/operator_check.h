// For tests: interprets an operator and its f64 reference, and compares both with naive loops. Inputs are small
// integers, so that sums are exact in any order and results compare with ==.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "support/check.h"
#include "support/rng.h"
#include "te/create_prim_func.h"
#include "te/tensor.h"

namespace autotune::topi {

// A dense row-major array for naive loops. An index outside the array is a failed CHECK; Has() tests an index.
struct Array {
  te::Shape shape;
  std::vector<double> data;
  explicit Array(te::Shape s) : shape(std::move(s)), data(te::Product(shape)) {}
  size_t Offset(const te::Shape& index) const {
    size_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      CHECK(index[d] >= 0 && index[d] < shape[d]);
      offset = offset * shape[d] + index[d];
    }
    return offset;
  }
  bool Has(const te::Shape& index) const {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (index[d] < 0 || index[d] >= shape[d]) return false;
    }
    return true;
  }
  double& at(const te::Shape& index) { return data[Offset(index)]; }
  double at(const te::Shape& index) const { return data[Offset(index)]; }
};

// Calls fn for every index of the shape, in row-major order.
void ForEach(const te::Shape& shape, const std::function<void(const te::Shape&)>& fn);

Array RandomArray(const te::Shape& shape, Rng& rng, int low = -4, int high = 4);

using Naive = std::function<Array(const std::vector<Array>&)>;

struct CheckOptions {
  double tolerance = 0;    // rtol and atol (runtime/compare.h), for operators that are not exact on integers
  int low = -4, high = 4;  // least and largest element of the inputs
  bool use_fma = true;
};

struct ShapeAndAxes {
  te::Shape shape;
  std::vector<int> axes;
};
// Returns a random shape of 1 to 5 dimensions with at most `most` elements, and a selection of at least one of its
// axes. A dimension's extent is drawn up to 300 in a quarter of the cases, otherwise up to 20.
ShapeAndAxes RandomShapeAndAxes(Rng& rng, int64_t most);

// Compares `output`, as a PrimFunc and as its f64 reference, with `naive`, in two orders of parallel iterations.
// Returns a description of the first difference, or "".
std::string Mismatch(const std::vector<te::Tensor>& inputs, const te::Tensor& output, const Naive& naive, Rng& rng,
                     const CheckOptions& options = {});

}  // namespace autotune::topi
