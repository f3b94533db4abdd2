// For tests: a matrix product on tensor cores, as a program with threads. Header-only.
#pragma once
#include <string>
#include <utility>

#include "ir/stmt.h"
#include "ir/text.h"

namespace autotune::test {

// Returns the text of a product of 32 x 16 elements. Two warps compute it in two pieces of the sum, with operands in
// shared memory. `type` of the operands: f32 (rounded to TF32), f16, bf16. `transposed`: columns of b are rows in
// shared memory. `replaced`: pairs of a part of the text and its replacement.
inline std::string MmaProgramText(const std::string& type, bool transposed = false,
                                  const std::vector<std::pair<std::string, std::string>>& replaced = {}) {
  std::string text = R"(func product(a: T[32, 32] input, b: T[32, 16] input, out: f32[32, 16] output) {
    alloc sa: T[32, 32] shared
    alloc sb: T[SB] shared
    alloc sum: f32[32, 16] register
    for by in 1 blockIdx.y {
      for z0 in 2 threadIdx.z { for y0 in 8 threadIdx.y { for x0 in 4 threadIdx.x { for i0 in 2 { for h0 in 2 { for p0 in 2 {
        block zero(v0: S 32 = i0 * 16 + h0 * 8 + y0, w0: S 16 = z0 * 8 + x0 * 2 + p0) { sum[v0, w0] = 0.0 }
      } } } } } }
      for piece in 2 @{pipeline = 2} {
        for z1 in 2 threadIdx.z { for y1 in 8 threadIdx.y { for x1 in 4 threadIdx.x { for e in 8 {
          block fill_a(v1: S 32 = (e * 64 + z1 * 32 + y1 * 4 + x1) // 16, k1: S 32 = piece * 16 + (e * 64 + z1 * 32 + y1 * 4 + x1) % 16) {
            sa[v1, k1] = a[v1, k1]
          }
        } } } }
        for z2 in 2 threadIdx.z { for y2 in 8 threadIdx.y { for x2 in 4 threadIdx.x { for e2 in 4 {
          block fill_b(k2: S 32 = piece * 16 + (e2 * 64 + z2 * 32 + y2 * 4 + x2) // 16, w2: S 16 = (e2 * 64 + z2 * 32 + y2 * 4 + x2) % 16) {
            sb[FILL] = b[k2, w2]
          }
        } } } }
        for z3 in 2 threadIdx.z { for y3 in 8 threadIdx.y { for x3 in 4 threadIdx.x { for step in STEPS { for i in 2 {
          for h in 2 @{mma = 1} { for p in 2 { for s in LENGTH {
            block dense(v3: S 32 = i * 16 + h * 8 + y3, w3: S 16 = z3 * 8 + x3 * 2 + p, k3: R 32 = piece * 16 + step * LENGTH + s) {
              sum[v3, w3] = fma(C(sa[v3, k3]), C(sb[USE]), sum[v3, w3])
            }
          } } }
        } } } } }
      }
      for z4 in 2 threadIdx.z { for y4 in 8 threadIdx.y { for x4 in 4 threadIdx.x { for i4 in 2 { for h4 in 2 { for p4 in 2 {
        block put(v4: S 32 = i4 * 16 + h4 * 8 + y4, w4: S 16 = z4 * 8 + x4 * 2 + p4) { out[v4, w4] = sum[v4, w4] }
      } } } } } }
    }
  })";
  std::vector<std::pair<std::string, std::string>> values = replaced;
  values.insert(values.end(), {{"T[", type + "["},
                               {"C(", type == "f32" ? "tf32(" : "f32("},
                               {"LENGTH", type == "f32" ? "8" : "16"},
                               {"STEPS", type == "f32" ? "2" : "1"},
                               {"SB", transposed ? "16, 32" : "32, 16"},
                               {"FILL", transposed ? "w2, k2" : "k2, w2"},
                               {"USE", transposed ? "w3, k3" : "k3, w3"}});
  for (const auto& [from, to] : values) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

inline constexpr const char* kMmaOperands[] = {"f32", "f16", "bf16"};

}  // namespace autotune::test
