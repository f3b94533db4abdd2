#include "target/streaming.h"

namespace autotune {
namespace {

constexpr int64_t kStreamedBytes = 32 << 20;  // size from which results are streamed; above a core's share of any cache

}  // namespace

bool IsStreamed(int64_t bytes, const Target& target) {
  return bytes >= kStreamedBytes && target.triple.starts_with("x86_64");
}

}  // namespace autotune
