#include "lower/miscompile.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "ir/text.h"
#include "lower/passes.h"
#include "support/check.h"
#include "support/hash.h"
#include "support/log.h"

namespace autotune {
namespace {

// a[i] = ... a[i] ...
bool IsUpdate(const Store& store) {
  bool found = false;
  Walk(store.value, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    found |= load && load->buffer->name == store.buffer->name &&
             std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(), store.indices.end(),
                        [](const Expr& a, const Expr& b) { return Equal(a, b); });
    return !found;
  });
  return found;
}

// The mistake of the pass that separates initialisations: accumulators start at 1 instead of 0.
Stmt StartingAtOne(const Stmt& s, bool& applied) {
  std::set<Name> accumulators;
  Walk(s, [&](const Stmt& x) {
    if (const Store* store = x.As<Store>(); store && IsUpdate(*store)) accumulators.insert(store->buffer->name);
    return true;
  });
  return RewriteStmt(s, [&](const Stmt& x) {
    const Store* store = x.As<Store>();
    if (!store || !accumulators.contains(store->buffer->name) || !IsZero(store->value)) return x;
    applied = true;
    return MakeStmt(Store{store->buffer, store->indices, ConstOf(1, store->value.dtype())});
  });
}

// The mistake of the pass that ends loops at their guards: it drops the last iteration of the last nest, which writes
// results. An element that was never written is wrong every time, unlike an accumulator that was never initialised.
Stmt LosingLastIteration(const Stmt& s, bool& applied) {
  if (const For* loop = s.As<For>()) {
    if (const int64_t* extent = AsInt(loop->extent); extent && *extent > 1) {
      applied = true;
      return MakeStmt(For{loop->var, Expr(*extent - 1), loop->kind, loop->annotations, loop->body});
    }
  }
  if (const Seq* seq = s.As<Seq>()) {
    std::vector<Stmt> stmts = seq->stmts;
    for (size_t i = stmts.size(); i > 0 && !applied; --i) stmts[i - 1] = LosingLastIteration(stmts[i - 1], applied);
    return MakeSeq(std::move(stmts));
  }
  return MapChildren(
      s, [&](const Stmt& child) { return applied ? child : LosingLastIteration(child, applied); }, nullptr);
}

// The mistake of the pass that unrolls loops: it drops one update.
Stmt LosingAnUpdate(const Stmt& s, bool& applied) {
  if (const Store* store = s.As<Store>(); store && IsUpdate(*store)) {
    applied = true;
    return MakeStmt(Store{store->buffer, store->indices, MakeLoad(store->buffer, store->indices)});
  }
  return MapChildren(
      s, [&](const Stmt& child) { return applied ? child : LosingAnUpdate(child, applied); }, nullptr);
}

}  // namespace

int MiscompilePercent() {
  static const int percent = [] {
    const char* value = std::getenv("AUTOTUNE_MISCOMPILE");
    std::string_view text = value ? value : "0";
    int number = -1;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool valid = error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= 100;
    CHECK(valid) << "AUTOTUNE_MISCOMPILE must be a number from 0 to 100, not " << text;
    if (number > 0) Log(LogLevel::kWarning, "AUTOTUNE_MISCOMPILE: ", number, " of 100 kernels are made wrong");
    return number;
  }();
  return percent;
}

std::optional<Miscompile> PlanMiscompile(const PrimFunc& scheduled, int percent) {
  if (percent == 0) return std::nullopt;
  uint64_t hash = Hash64(ToText(scheduled));
  if (hash % 100 >= static_cast<uint64_t>(percent)) return std::nullopt;
  return Miscompile{static_cast<Bug>(hash / 100 % std::size(EnumNames<Bug>::kNames))};
}

PrimFunc WithMistake(std::string_view pass, const PrimFunc& f, Miscompile& miscompile) {
  struct Mistake {
    std::string_view pass;
    Stmt (*make)(const Stmt&, bool& applied);
  };
  static constexpr Mistake kMistakes[] = {
      // by Bug
      {"lower_blocks", StartingAtOne},
      {"hoist_guards", LosingLastIteration},
      {"unroll", LosingAnUpdate},
  };
  static_assert(std::size(kMistakes) == std::size(EnumNames<Bug>::kNames));
  const Mistake& mistake = kMistakes[static_cast<int>(miscompile.bug)];
  if (miscompile.applied || pass != mistake.pass) return f;
  return WithBody(f, mistake.make(f.body, miscompile.applied));
}

}  // namespace autotune
