// For tests: interprets an operator and its f64 reference, and compares both with naive loops. Inputs are small
// integers, so that sums are exact in any order and results compare with ==.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ir/interp.h"
#include "ir/verify.h"
#include "support/rng.h"
#include "te/create_prim_func.h"
#include "te/reference.h"
#include "te/tensor.h"
#include "tests/close.h"

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
inline void ForEach(const te::Shape& shape, const std::function<void(const te::Shape&)>& fn) {
  te::Shape index(shape.size(), 0);
  for (int64_t i = 0; i < te::Product(shape); ++i) {
    fn(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

inline Array RandomArray(const te::Shape& shape, Rng& rng, int low = -4, int high = 4) {
  Array a(shape);
  for (double& x : a.data) x = static_cast<double>(low + rng.Below(high - low + 1));
  return a;
}

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
inline ShapeAndAxes RandomShapeAndAxes(Rng& rng, int64_t most) {
  ShapeAndAxes drawn;
  do {
    drawn.shape.clear();
    for (int64_t rank = 1 + rng.Below(5); rank > 0; --rank)
      drawn.shape.push_back(1 + rng.Below(rng.Below(4) == 0 ? 300 : 20));
  } while (te::Product(drawn.shape) > most);
  const int rank = static_cast<int>(drawn.shape.size());
  for (int d = 0; d < rank; ++d) {
    if (rng.Below(2) == 0) drawn.axes.push_back(d);
  }
  if (drawn.axes.empty()) drawn.axes.push_back(static_cast<int>(rng.Below(rank)));
  return drawn;
}

// Compares `output`, as a PrimFunc and as its f64 reference, with `naive`, in two orders of parallel iterations.
// Returns a description of the first difference, or "".
inline std::string Mismatch(const std::vector<te::Tensor>& inputs, const te::Tensor& output, const Naive& naive,
                            Rng& rng, const CheckOptions& options = {}) {
  std::vector<te::TensorParam> params;
  std::vector<Array> arrays;
  for (const te::Tensor& t : inputs) {
    params.push_back({t, ParamRole::kInput});
    arrays.push_back(RandomArray(t.shape(), rng, options.low, options.high));
  }
  params.push_back({output, ParamRole::kOutput});
  Array expected = naive(arrays);
  if (expected.shape != output.shape()) return "the operator's shape differs";
  PrimFunc f = te::CreatePrimFunc("f", params, {.use_fma = options.use_fma});
  PrimFunc reference = te::ToReference(f);
  for (const PrimFunc* function : {&f, &reference}) {
    if (Status valid = Verify(*function, Dialect::kSchedulable); !valid.ok()) return valid.error().Text();
    for (uint64_t seed : {0, 1}) {
      std::vector<InterpArray> args;
      for (size_t i = 0; i < inputs.size(); ++i) {
        args.push_back({inputs[i].dtype(), inputs[i].shape(), arrays[i].data});
      }
      args.push_back({output.dtype(), output.shape(), std::vector<double>(expected.data.size())});
      std::string which = function == &f ? "" : "reference: ";
      Status status = Interpret(*function, args, {.order_seed = seed});
      if (!status.ok()) return which + status.error().Text();
      const std::string difference =
          test::Difference(args.back().data, expected.data, {options.tolerance, options.tolerance});
      if (!difference.empty()) return which + difference;
    }
  }
  return "";
}

}  // namespace autotune::topi
