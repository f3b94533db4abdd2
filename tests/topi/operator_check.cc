#include "tests/topi/operator_check.h"

#include "ir/interp.h"
#include "ir/verify.h"
#include "te/reference.h"
#include "tests/close.h"

namespace autotune::topi {

void ForEach(const te::Shape& shape, const std::function<void(const te::Shape&)>& fn) {
  te::Shape index(shape.size(), 0);
  for (int64_t i = 0; i < te::Product(shape); ++i) {
    fn(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

Array RandomArray(const te::Shape& shape, Rng& rng, int low, int high) {
  Array a(shape);
  for (double& x : a.data) x = static_cast<double>(low + rng.Below(high - low + 1));
  return a;
}

ShapeAndAxes RandomShapeAndAxes(Rng& rng, int64_t most) {
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

std::string Mismatch(const std::vector<te::Tensor>& inputs, const te::Tensor& output, const Naive& naive, Rng& rng,
                     const CheckOptions& options) {
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
