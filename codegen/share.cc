#include "codegen/share.h"

#include <unordered_map>

#include "ir/linear_form.h"
#include "ir/visit.h"
#include "support/hash.h"

namespace autotune {
namespace {

// Least number of nodes of a large expression. GCC 12 and Clang 19 compile one of this size in 30 ms, and find its
// equal terms themselves, as LLVM does. [chosen]
constexpr int kLarge = 1000;

bool IsLarge(const Expr& e) {
  int nodes = 0;
  Walk(e, [&](const Expr&) { return ++nodes <= kLarge; });
  return nodes > kLarge;
}

// The terms of one expression. The operands of each are such terms, too, so that two equal ones have the same operands.
class Terms {
 public:
  // Visits each cell once: written out as a tree, an expression whose terms are shared may be too large to walk.
  Expr Shared(const Expr& e) {
    auto known = shared_.find(e.get());
    if (known != shared_.end()) return known->second;
    Expr shared = Find(MapChildren(e, [&](const Expr& operand) { return Shared(operand); }));
    shared_.emplace(e.get(), shared);
    return shared;
  }

 private:
  Expr Find(const Expr& e) {
    const uint64_t hash = HashOf(e);
    auto [begin, end] = terms_.equal_range(hash);
    for (auto term = begin; term != end; ++term) {
      if (Compare(term->second, e) == 0) return term->second;
    }
    terms_.emplace(hash, e);
    return e;
  }

  static uint64_t HashOf(const Expr& e) {
    uint64_t hash = e.get()->node.index();
    bool leaf = true;
    MapChildren(e, [&](const Expr& operand) {
      hash = HashCombine(hash, reinterpret_cast<uintptr_t>(operand.get()));
      leaf = false;
      return operand;
    });
    return leaf ? StructuralHash(e) : hash;
  }

  std::unordered_multimap<uint64_t, Expr> terms_;
  std::unordered_map<const ExprCell*, Expr> shared_;
};

}  // namespace

Expr WithSharedTerms(const Expr& e) {
  if (!IsLarge(e)) return e;
  return Terms().Shared(e);
}

}  // namespace autotune
