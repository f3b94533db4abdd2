#include "tests/graph/interpreted.h"

#include "graph/to_te.h"
#include "ir/interp.h"
#include "tests/graph/reference.h"

namespace autotune::reference {

std::string LoweredMismatch(const Graph& body, uint64_t seed) {
  Rng rng(seed);
  std::vector<Tensor> in;
  for (ValueId v : body.inputs) in.push_back(Random(body.Spec(v).shape, rng, body.Spec(v).dtype));
  for (const Constant& c : body.constants) {
    if (!c.data) in.push_back(Random(body.Spec(c.value).shape, rng, body.Spec(c.value).dtype));
  }
  // For square roots, logarithms, powers, quotients and conversions to unsigned integers, makes all floats positive.
  for (const Node& node : body.nodes) {
    const auto* cast = std::get_if<CastAttrs>(&node.attrs);
    bool to_unsigned = cast && cast->to.code == TypeCode::kUInt;
    if (!to_unsigned && node.op != Op::kSqrt && node.op != Op::kDiv && node.op != Op::kLog && node.op != Op::kPow)
      continue;
    for (Tensor& t : in) {
      for (double& x : t.data) {
        if (t.dtype.IsFloat()) x = std::abs(x) + 0.5f;
      }
    }
  }
  Tensor want = Evaluate(body, in)[0];
  auto alternatives =
      graph::LowerSubgraph(body, *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2"));
  if (!alternatives.ok()) return alternatives.error().Text();
  for (const graph::Alternative& alternative : *alternatives) {
    std::vector<InterpArray> args;
    for (const Tensor& t : in) args.push_back({t.dtype, t.shape, t.data});
    args.push_back({want.dtype, want.shape, std::vector<double>(Count(want.shape))});
    Status status = Interpret(alternative.func, args);
    if (!status.ok()) return alternative.name + ": " + status.error().Text();
    const std::string mismatch = Mismatch({args.back().shape, args.back().data}, want);
    if (!mismatch.empty()) return alternative.name + ": " + mismatch;
  }
  return "";
}

}  // namespace autotune::reference
