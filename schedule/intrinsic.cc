#include "schedule/intrinsic.h"

#include "ir/text.h"
#include "support/check.h"

namespace autotune {
namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

Intrinsic Make(const std::string& name, const std::string& params, const std::string& description,
               const std::string& implementation) {
  auto parse = [&](const std::string& body) {
    auto func = ParsePrimFunc("func " + name + "(" + params + ") {" + body + "}");
    CHECK(func.ok()) << "intrinsic " << name << ": " << func.error().Text();
    return *func;
  };
  return {name, parse(description), parse(implementation)};
}

// c[i] += a * b[i] for n elements: a row of a matrix product. `update` is the text of the new value of c[v], either an
// fma or a product and a sum.
Intrinsic Axpy(const std::string& name, int n, const std::string& update) {
  auto sized = [&](const std::string& text) { return Replaced(text, "N", std::to_string(n)); };
  std::string block = "{ block update(v: S N = i) { c[v] = " + update + " } }";
  return Make(name, sized("a: f32[1] input, b: f32[N] input, c: f32[N] output"), sized("for i in N " + block),
              sized("for i in N vectorized " + block));
}

// c[i, j] += a[i, k] * b[k, j] for m rows and n columns, with 4 products for each element: the update of a register
// tile. Both programs add the products of an element in the same order.
Intrinsic Gemm(const std::string& name, int m, int n) {
  auto sized = [&](const std::string& text) {
    return Replaced(Replaced(text, "M", std::to_string(m)), "N", std::to_string(n));
  };
  std::string block =
      "block update(vi: S M = i, vj: S N = j, vk: R 4 = k) { c[vi, vj] = fma(a[vi, vk], b[vk, vj], c[vi, vj]) }";
  return Make(name, sized("a: f32[M, 4] input, b: f32[4, N] input, c: f32[M, N] output"),
              sized("for i in M { for j in N { for k in 4 { " + block + " } } }"),
              sized("for k in 4 unrolled { for i in M unrolled { for j in N vectorized { " + block + " } } }"));
}

// c[i] += a[k] * b[i, k]: n sums of 4 products of bytes, in 32 bits. Dot-product instructions compute this (ir/dot.h).
Intrinsic Dot(const std::string& name, int n, const std::string& a, const std::string& b) {
  auto sized = [&](const std::string& text) {
    return Replaced(Replaced(Replaced(text, "N", std::to_string(n)), "TYPE_A", a), "TYPE_B", b);
  };
  const std::string block = "block update(v: S N = i, vk: R 4 = k) { c[v] = c[v] + i32(a[vk]) * i32(b[v, vk]) }";
  return Make(name, sized("a: TYPE_A[4] input, b: TYPE_B[N, 4] strides [4, 1] input, c: i32[N] output"),
              sized("for i in N { for k in 4 { " + block + " } }"),
              sized("for i in N vectorized { for k in 4 @{dot=1} { " + block + " } }"));
}

}  // namespace

const std::vector<Intrinsic>& Intrinsics() {
  static const std::vector<Intrinsic> all = {
      Axpy("axpy_f32x4", 4, "c[v] + a[0] * b[v]"),
      Axpy("axpy_f32x8", 8, "c[v] + a[0] * b[v]"),
      Axpy("axpy_fma_f32x4", 4, "fma(a[0], b[v], c[v])"),
      Axpy("axpy_fma_f32x8", 8, "fma(a[0], b[v], c[v])"),
      Gemm("gemm_f32_4x8x4", 4, 8),
      Gemm("gemm_f32_4x16x4", 4, 16),
      Dot("dot_i8_i32x4", 4, "i8", "i8"),
      Dot("dot_i8_i32x8", 8, "i8", "i8"),
      Dot("dot_i8_i32x16", 16, "i8", "i8"),
      Dot("dot_u8i8_i32x16", 16, "u8", "i8"),
      Dot("dot_u8_i32x16", 16, "u8", "u8"),
  };
  return all;
}

const Intrinsic* FindIntrinsic(const Name& name) {
  for (const Intrinsic& intrinsic : Intrinsics()) {
    if (intrinsic.name == name) return &intrinsic;
  }
  return nullptr;
}

}  // namespace autotune
