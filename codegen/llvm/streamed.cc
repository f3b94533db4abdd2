#include "codegen/llvm/streamed.h"

#include "arith/analyzer.h"
#include "codegen/codegen.h"
#include "codegen/llvm/walk.h"

namespace autotune {
namespace {

// More than a core's share of any cache.
constexpr int64_t kStreamedBytes = 32 << 20;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostStep = 4 * kLineBytes;  // of an innermost loop, whose stores lie side by side
constexpr int64_t kLeastBytes = 16;            // of a vector that can be stored so

}  // namespace

bool IsStreamed(int64_t bytes, const Target& target) {
  return bytes >= kStreamedBytes && target.triple.starts_with("x86_64");
}

std::set<Name> StreamedBuffers(const Stmt& body, const Target& target) {
  std::set<Name> streamed, others;
  WalkOnce(
      body,
      [&](const Stmt& s) {
        if (const Alloc* alloc = s.As<Alloc>()) others.insert(alloc->buffer->name);
        if (const Store* store = s.As<Store>()) {
          const Buffer& buffer = store->buffer;
          if (IsStreamed(ConstShape(buffer)[0] * buffer->dtype.Bytes(), target)) streamed.insert(buffer->name);
        }
        return true;
      },
      [&](const Expr& e) {
        if (const Load* load = e.As<Load>()) others.insert(load->buffer->name);
        const Call* call = e.As<Call>();
        return !call || call->op != Op::kPrefetchWrite;
      });
  for (const Name& name : others) streamed.erase(name);
  return streamed;
}

bool FillsLines(const Buffer& buffer, const Expr& index, int lanes, const Name& innermost) {
  const int64_t bytes = lanes * buffer->dtype.Bytes();
  if (bytes % kLineBytes == 0) return true;
  if (bytes < kLeastBytes || kLineBytes % bytes != 0) return false;
  const int64_t step = ToLinear(index).Coefficient(innermost);
  return step >= lanes && step * buffer->dtype.Bytes() <= kMostStep;
}

}  // namespace autotune
