// Schedules of products whose epilogue takes numbers that the kernel computes first, as the scales of a dynamic
// quantization.
#include <gtest/gtest.h>

#include "ir/dot.h"
#include "te/create_prim_func.h"
#include "tests/tuner/sketch_space.h"
#include "topi/alternatives.h"
#include "topi/elementwise.h"

namespace autotune::test {
namespace {

// (y + s) s with s = 1 / max(high - low, 1).
PrimFunc WithNumbers(const te::Tensor& data, const te::Tensor& weight, const te::Tensor& y) {
  const te::Tensor low = te::Placeholder("low", {}), high = te::Placeholder("high", {}), one = te::Splat({}, 1);
  const te::Tensor s = topi::Div("s", one, topi::Maximum("range", topi::Sub("sub", high, low), one));
  const te::Tensor floats = y.dtype() == DType::Float(32) ? y : topi::CastTo("cast", y, DType::Float(32));
  const te::Tensor out = topi::Mul("mul", topi::Add("add", floats, s), s);
  return te::CreatePrimFunc("numbers",
                            {{data, ParamRole::kInput},
                             {low, ParamRole::kInput},
                             {high, ParamRole::kInput},
                             {weight, ParamRole::kConstant},
                             {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

void CheckProduct(int64_t m, int64_t n, int64_t k, DType type, const Target& target = TestTarget()) {
  const te::Tensor a = te::Placeholder("a", {m, k}, type);
  const te::Tensor b = te::Placeholder("b", {k, n}, IsByte(type) ? DType::Int(8) : type);
  SCOPED_TRACE(type.Text() + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
  CheckSpace(WithNumbers(a, b, topi::MatMul("dense", a, b)), 3, 1, target);
}

TEST(Numbers, ProductsComputeThemFirst) {
  const DType floats = DType::Float(32), bytes = DType::UInt(8);
  CheckProduct(20, 40, 32, floats);
  CheckProduct(1, 256, 128, floats);
  CheckProduct(20, 1, 32, floats);
  CheckProduct(3, 256, 128, floats);
  const Target vnni = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2").value();
  const Target amx = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2").value();
  for (const Target& target : {vnni, amx}) {
    CheckProduct(20, 40, 32, bytes, target);
    CheckProduct(1, 256, 128, bytes, target);
  }
  CheckProduct(20, 40, 32, DType::Int(16));
}

TEST(Numbers, ConvolutionsComputeThemFirst) {
  for (const topi::ConvAlternative& row : topi::ConvAlternatives()) {
    for (const int64_t groups : {1, 2, 16}) {
      const te::Tensor data = te::Placeholder("data", {1, 6, 6, 16});
      const te::Tensor weight = te::Placeholder("weight", {3, 3, 16 / groups, 16});
      const topi::ConvAttrs attrs{.pad = {1, 1, 1, 1}, .groups = groups};
      if (!row.applies(data.shape(), weight.shape(), attrs, TestTarget())) continue;
      SCOPED_TRACE(std::string(row.name) + " " + std::to_string(groups));
      const PrimFunc f = WithNumbers(data, weight, row.make("conv", data, weight, attrs, TestTarget()));
      if (row.exact) CheckSpace(f, 2);
      for (const Sketch& sketch : GenerateSketches(f, TestTarget()).value())
        EXPECT_EQ(sketch.name.find("no rule places"), std::string::npos) << sketch.name;
    }
  }
}

}  // namespace
}  // namespace autotune::test
