// A register-tiled matrix product, scheduled by hand.
#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

// Returns the text of an m x k by k x n product in register tiles of mr x nr elements. Vectors have `lanes` elements.
// The sum is split into pieces of `kc` steps, of which `unroll` are unrolled. Packing pads the rows to a multiple of
// `mr` and the columns to a multiple of `nr`. A is packed at every call; the constant B is packed once.
std::string Gemm(int m, int n, int k, int mr, int nr, int kc, int unroll, int lanes) {
  int mp = (m + mr - 1) / mr, np = (n + nr - 1) / nr, ko = k / kc;
  auto s = [](int x) { return std::to_string(x); };
  std::string text = "func gemm(a: f32[" + s(m) + ", " + s(k) + "] input, b: f32[" + s(k) + ", " + s(n) +
                     "] constant, c: f32[" + s(m) + ", " + s(n) + "] output) {\n";
  text += "alloc ap: f32[" + s(mp) + ", " + s(k) + ", " + s(mr) + "]\n";
  text += "alloc bp: f32[" + s(np) + ", " + s(k) + ", " + s(nr) + "]\n";
  text += "alloc acc: f32[" + s(mp * mr) + ", " + s(np * nr) + "] register\n";
  text += "alloc part: f32[" + s(mp * mr) + ", " + s(np * nr) + "]\n";
  // pack A, B
  text += "for p in " + s(mp) + " parallel { for q in " + s(k) + " { for r in " + s(mr) + " { block pack_a(vp: S " +
          s(mp) + " = p, vq: S " + s(k) + " = q, vr: S " + s(mr) + " = r) { ap[vp, vq, vr] = select(vp * " + s(mr) +
          " + vr < " + s(m) + ", a[vp * " + s(mr) + " + vr, vq], 0.0) } } } }\n";
  text += "for p1 in " + s(np) + " parallel { for q1 in " + s(k) + " { for r1 in " + s(nr) +
          " vectorized { block pack_b(wp: S " + s(np) + " = p1, wq: S " + s(k) + " = q1, wr: S " + s(nr) +
          " = r1) { bp[wp, wq, wr] = select(wp * " + s(nr) + " + wr < " + s(n) + ", b[wq, wp * " + s(nr) +
          " + wr], 0.0) } } } }\n";
  // Returns loops over the elements of one tile, with the given body.
  auto tile = [&](const std::string& tag, const std::string& body) {
    return "for i" + tag + " in " + s(mr) + " unrolled { for j" + tag + " in " + s(nr / lanes) + " unrolled { for l" +
           tag + " in " + s(lanes) + " vectorized {\n" + body + "} } }\n";
  };
  std::string row = s(mp * mr), col = s(np * nr);
  auto bind = [&](const std::string& tag) {
    return "(x" + tag + ": S " + row + " = io * " + s(mr) + " + i" + tag + ", y" + tag + ": S " + col + " = jo * " +
           s(nr) + " + j" + tag + " * " + s(lanes) + " + l" + tag;
  };
  text += "for io in " + s(mp) + " parallel { for jo in " + s(np) + " {\n";
  text += tile("0", "block zero" + bind("0") + ") { acc[x0, y0] = 0.0 }\n");
  text += "for k0 in " + s(ko) + " { for k1 in " + s(kc / unroll) + " { for k2 in " + s(unroll) + " unrolled {\n";
  text += tile("1", "block update" + bind("1") + ", z: R " + s(k) + " = k0 * " + s(kc) + " + k1 * " + s(unroll) +
                        " + k2) { acc[x1, y1] = acc[x1, y1] + ap[x1 // " + s(mr) + ", z, x1 % " + s(mr) +
                        "] * bp[y1 // " + s(nr) + ", z, y1 % " + s(nr) + "] }\n");
  text += "} } }\n";
  // The tile goes through a scratch buffer, so that only the copy to C has guards.
  text += tile("2", "block spill" + bind("2") + ") { part[x2, y2] = acc[x2, y2] }\n");
  text += "for i3 in " + s(mr) + " { for l3 in " + s(nr) + " vectorized { block store(x3: S " + row + " = io * " +
          s(mr) + " + i3, y3: S " + col + " = jo * " + s(nr) + " + l3) where io * " + s(mr) + " + i3 < " + s(m) +
          " && jo * " + s(nr) + " + l3 < " + s(n) + " { c[x3, y3] = part[x3, y3] } } }\n";
  text += "} }\n}\n";
  return text;
}

TEST(Gemm, RegisterTiledAgreesWithInterpreter) {
  // The tiles are small enough for GCC to keep them in 16 registers: at most 8 accumulators if the loop over k is
  // unrolled, and 12 if it is not.
  AgreesWithInterpreter(Parse(Gemm(13, 20, 8, 4, 8, 4, 2, 8)));
  AgreesWithInterpreter(Parse(Gemm(12, 32, 8, 4, 16, 8, 4, 8)));
  AgreesWithInterpreter(Parse(Gemm(15, 9, 6, 12, 8, 6, 1, 8)));
}

}  // namespace
}  // namespace autotune
