#include "ir/interp_memory.h"

#include <algorithm>

namespace autotune::interp {
namespace {

constexpr int kBlockAxes = 3, kAxes = 6;

bool SameAlong(const ThreadId& a, const ThreadId& b, int axes) {
  for (int i = 0; i < axes; ++i) {
    if (std::max<int64_t>(a.at[i], 0) != std::max<int64_t>(b.at[i], 0)) return false;
  }
  return true;
}

}  // namespace

std::string ThreadId::Text() const {
  std::string text;
  for (int i = 0; i < kAxes; ++i) {
    if (at[i] < 0) continue;
    text += text.empty() ? "(" : ", ";
    text += ToText(static_cast<LoopKind>(static_cast<int>(LoopKind::kBlockX) + i));
    text += " = " + std::to_string(at[i]);
  }
  return text.empty() ? "(no thread)" : text + ")";
}

bool SameBlock(const ThreadId& a, const ThreadId& b) { return SameAlong(a, b, kBlockAxes); }
bool SameThread(const ThreadId& a, const ThreadId& b) { return SameAlong(a, b, kAxes); }

std::string Memory::ElementText(int64_t at) const {
  std::vector<int64_t> index(shape.size());
  std::vector<size_t> dims;
  for (size_t d = 0; d < shape.size(); ++d) dims.push_back(d);
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  for (size_t d : dims) {
    if (strides[d] <= 0 || shape[d] <= 1) continue;
    index[d] = std::min(at / strides[d], shape[d] - 1);
    at -= index[d] * strides[d];
  }
  std::string text = buffer->name.str() + "[";
  for (size_t d = 0; d < index.size(); ++d) text += (d ? ", " : "") + std::to_string(index[d]);
  return text + "]";
}

}  // namespace autotune::interp
