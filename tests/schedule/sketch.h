// For tests: the register-tiled sketch for convolutions and dense layers with a bias and an activation, as trace text
// without decisions.
#pragma once
#include <string>
#include <utility>

namespace autotune {

struct SketchNames {
  std::string anchor = "conv", weight = "w", last = "out", batch = "conv_n, ", m = "conv_m", oc = "conv_oc";
  std::string k = "conv_ic", reduce = "conv_kh, conv_kw, ";  // the innermost reduction loop, and the loops around it
  int weight_rank = 4;
  std::string before;  // steps at the beginning
  int lanes = 8;
};

// Returns the text with every `from` replaced by `to`.
inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

inline std::string Sketch(const SketchNames& n) {
  std::string layout = "[d" + std::to_string(n.weight_rank - 1) + " // oc_t.2";
  for (int d = 0; d + 1 < n.weight_rank; ++d) layout += ", d" + std::to_string(d);
  layout += ", d" + std::to_string(n.weight_rank - 1) + " % oc_t.2]";
  std::string text = R"(
sample_tile($M, n=3, max_inner=14, multiple_of=1) -> m_t
sample_tile($C, n=3, max_inner=32, multiple_of=$L) -> oc_t
sample_tile($K, n=2, max_inner=8, multiple_of=1) -> k_t
cache_read($A, $W, global) -> packed
transform_layout(packed, $Y, pad_value=0)
split($M, m_t) -> m_0, m_1, m_2
split($C, oc_t) -> oc_0, oc_1, oc_2
split($K, k_t) -> k_0, k_1
split(oc_2, [?, $L]) -> oc_v, lane
reorder([$Bm_0, oc_0, m_1, oc_1, $Rk_0, k_1, m_2, oc_v, lane])
fuse([$Bm_0, oc_0]) -> f
pad_block($A)
reverse_compute_at($O, oc_1) -> $S
set_scope($A_out, register)
decompose_reduction($A, $F)
parallel(f)
unroll(k_1)
unroll(m_2)
unroll(oc_v)
vectorize(lane)
unroll(m_2_init)
unroll(oc_v_init)
vectorize(lane_init)
unroll($O_i1)
split($O_i2, [?, $L]) -> out_v, out_lane
unroll(out_v)
vectorize(out_lane)
)";
  std::string first = n.reduce.empty() ? "k_0" : n.reduce.substr(0, n.reduce.find(','));
  const std::pair<std::string, std::string> values[] = {
      {"$Y", layout},   {"$S", n.batch.empty() ? "$O_i1, $O_i2" : "$O_i0, $O_i1, $O_i2"},
      {"$F", first},    {"$C", n.oc},
      {"$M", n.m},      {"$K", n.k},
      {"$B", n.batch},  {"$R", n.reduce},
      {"$A", n.anchor}, {"$W", n.weight},
      {"$O", n.last},   {"$L", std::to_string(n.lanes)}};
  for (const auto& [from, to] : values) text = Replaced(text, from, to);
  return n.before + text;
}

}  // namespace autotune
