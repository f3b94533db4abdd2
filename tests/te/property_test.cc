// Random tensor expressions. The PrimFunc of an expression and its f64 reference compute the same numbers as a direct
// evaluation of the formulas. The two programs are well-formed and deterministic, and their texts parse to equal
// programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/rng.h"
#include "te/create_prim_func.h"
#include "te/reference.h"

namespace autotune::te {
namespace {

struct Value {
  Tensor tensor;
  std::vector<double> data;  // row-major over the logical shape
};

Shape IndexOf(int64_t flat, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) index[d] = flat % shape[d], flat /= shape[d];
  return index;
}
int64_t FlatOf(const Shape& index, const Shape& shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng_(seed) {
    for (int i = 0; i < 2; ++i) {
      Shape shape;
      for (int64_t rank = 1 + rng_.Below(3); rank-- > 0;) shape.push_back(1 + rng_.Below(4));
      Value v{Placeholder("p", shape), std::vector<double>(Product(shape))};
      for (double& x : v.data) x = static_cast<double>(rng_.Below(9)) - 4;
      values.push_back(v);
    }
    inputs = values;
    for (int64_t n = 1 + rng_.Below(6); n-- > 0;) Add();
  }

  std::vector<Value> inputs, values;

  // Returns one or two different computed values.
  std::vector<Value> Outputs() {
    std::vector<Value> out = {values.back()};
    const Value& other = Pick();
    if (!other.tensor->parts.empty() && other.tensor.get() != out[0].tensor.get()) out.push_back(other);
    return out;
  }

 private:
  const Value& Pick() { return values[rng_.Below(static_cast<int64_t>(values.size()))]; }
  std::string Name() { return rng_.Below(2) ? "t" : "t_out"; }  // clashes are deliberate

  void Add() {
    switch (rng_.Below(5)) {
      case 0:
        return AddMap();
      case 1:
        return AddReduce();
      case 2:
        return AddReshape();
      case 3:
        return AddTranspose();
      case 4:
        return AddConcat();
    }
  }

  // Adds x + y or max(x, y) for a y of the same shape. The result's axes are those of the shape, or one axis over all
  // elements.
  void AddMap() {
    const Value x = Pick();
    Value y = x;
    for (const Value& v : values) {
      if (v.tensor.shape() == x.tensor.shape() && rng_.Below(2)) y = v;
    }
    bool add = rng_.Below(2);
    Shape shape = x.tensor.shape();
    std::vector<Axis> axes = rng_.Below(2) ? std::vector<Axis>{{"all", Product(shape)}} : NaturalAxes(shape);
    Shape domain;
    for (const Axis& axis : axes) domain.push_back(axis.extent);
    Value out{Compute(
                  Name(), axes, {x.tensor, y.tensor},
                  [&](const std::vector<Expr>& i) {
                    std::vector<Expr> logical = ReshapeIndices(i, domain, shape);
                    Expr a = x.tensor(logical), b = y.tensor(logical);
                    return add ? a + b : Max(a, b);
                  },
                  shape),
              x.data};
    for (size_t i = 0; i < out.data.size(); ++i) {
      out.data[i] = add ? x.data[i] + y.data[i] : std::max(x.data[i], y.data[i]);
    }
    values.push_back(out);
  }

  void AddReduce() {
    const Value x = Pick();
    const Shape shape = x.tensor.shape();
    if (shape.size() < 2) return AddMap();
    size_t dropped = rng_.Below(static_cast<int64_t>(shape.size()));
    Shape kept = shape;
    kept.erase(kept.begin() + dropped);
    Combiner combiner = std::vector{Combiner::kSum, Combiner::kMax, Combiner::kMin}[rng_.Below(3)];
    auto whole = [&](auto index, auto r) {
      index.insert(index.begin() + dropped, r);
      return index;
    };
    // Half of the reductions have collapsed axes, as a convolution does.
    bool collapsed = rng_.Below(2);
    std::vector<Axis> axes = collapsed ? std::vector<Axis>{{"m", Product(kept)}} : NaturalAxes(kept);
    Value out{Reduce(
                  Name(), axes, {{"r", shape[dropped]}}, combiner, {x.tensor},
                  [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                    return x.tensor(whole(collapsed ? ReshapeIndices(i, {Product(kept)}, kept) : i, r[0]));
                  },
                  kept),
              std::vector<double>(Product(kept))};
    for (size_t i = 0; i < out.data.size(); ++i) {
      for (int64_t r = 0; r < shape[dropped]; ++r) {
        double e = x.data[FlatOf(whole(IndexOf(i, kept), r), shape)];
        double& y = out.data[i];
        y = r == 0                       ? e
            : combiner == Combiner::kSum ? y + e
            : combiner == Combiner::kMax ? std::max(y, e)
                                         : std::min(y, e);
      }
    }
    values.push_back(out);
  }

  void AddReshape() {
    const Value x = Pick();
    Shape to = {Product(x.tensor.shape())};
    for (int64_t f : {2, 3}) {
      if (to[0] % f == 0 && rng_.Below(2)) to[0] /= f, to.push_back(f);
    }
    values.push_back(
        {Compute(
             Name(), x.tensor->axes, {x.tensor}, [&](const std::vector<Expr>& i) { return x.tensor.AtAxes(i); }, to),
         x.data});
  }

  void AddTranspose() {
    const Value x = Pick();
    const Shape shape = x.tensor.shape();
    Shape reversed(shape.rbegin(), shape.rend());
    Value out{Compute(Name(), NaturalAxes(reversed), {x.tensor},
                      [&](const std::vector<Expr>& i) {
                        return x.tensor({i.rbegin(), i.rend()});
                      }),
              x.data};
    for (size_t i = 0; i < out.data.size(); ++i) {
      Shape index = IndexOf(i, reversed);
      out.data[i] = x.data[FlatOf({index.rbegin(), index.rend()}, shape)];
    }
    values.push_back(out);
  }

  // Adds x, concatenated with itself along the first dimension.
  void AddConcat() {
    const Value x = Pick();
    Shape shape = x.tensor.shape();
    std::vector<Part> parts;
    for (int64_t k = 0; k < 2; ++k) {
      Part part{.suffix = "_" + std::to_string(k), .axes = NaturalAxes(shape)};
      std::vector<Expr> i = AxisVars(part.axes);
      part.body = x.tensor(i);
      part.store = i;
      part.store[0] = i[0] + k * shape[0];
      parts.push_back(part);
    }
    Value out{{}, x.data};
    out.data.insert(out.data.end(), x.data.begin(), x.data.end());
    shape[0] *= 2;
    out.tensor = Assemble(Name(), shape, {x.tensor}, parts);
    values.push_back(out);
  }

  Rng rng_;
};

PrimFunc Create(const Maker& made, const std::vector<Value>& outputs) {
  std::vector<TensorParam> params;
  for (const Value& v : made.inputs) params.push_back({v.tensor});
  for (const Value& v : outputs) params.push_back({v.tensor, ParamRole::kOutput});
  return CreatePrimFunc("f", params, {.use_fma = true});
}

// Interprets f and compares its results with `outputs`. Returns a description of the first error, or "".
std::string Wrong(const PrimFunc& f, const Maker& made, const std::vector<Value>& outputs, uint64_t order) {
  if (Status valid = Verify(f, Dialect::kSchedulable); !valid.ok()) return valid.error().Text();
  std::vector<InterpArray> args;
  for (const Value& v : made.inputs) args.push_back({v.tensor.dtype(), v.tensor.shape(), v.data});
  for (const Value& v : outputs) {
    args.push_back({v.tensor.dtype(), v.tensor.shape(), std::vector<double>(v.data.size())});
  }
  if (Status status = Interpret(f, args, {.order_seed = order}); !status.ok()) return status.error().Text();
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (args[made.inputs.size() + k].data != outputs[k].data) return "output " + std::to_string(k) + " differs";
  }
  return "";
}

TEST(CreatePrimFuncProperty, ComputesItsFormulas) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Maker made(seed);
    std::vector<Value> outputs = made.Outputs();
    PrimFunc f = Create(made, outputs), reference = ToReference(f);
    EXPECT_EQ(Wrong(f, made, outputs, 0), "") << "seed " << seed << "\n" << ToText(f);
    EXPECT_EQ(Wrong(reference, made, outputs, seed + 1), "") << "seed " << seed << "\n" << ToText(reference);
  }
}

TEST(CreatePrimFuncProperty, IsDeterministicAndPrintsAndParses) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Maker made(seed), again(seed);
    PrimFunc f = Create(made, made.Outputs());
    EXPECT_EQ(FirstMismatch(f, Create(again, again.Outputs())), "");
    for (const PrimFunc& g : {f, ToReference(f)}) {
      Result<PrimFunc> parsed = ParsePrimFunc(ToText(g));
      ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
      EXPECT_EQ(FirstMismatch(g, *parsed), "");
    }
  }
}

TEST(CreatePrimFuncProperty, AWrongElementIsNoticed) {
  Maker made(1);
  std::vector<Value> outputs = made.Outputs();
  PrimFunc f = Create(made, outputs);
  outputs[0].data.back() += 1;
  EXPECT_NE(Wrong(f, made, outputs, 0), "");
}

}  // namespace
}  // namespace autotune::te
