#include "schedule/nest.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ir/annotations.h"
#include "ir/visit.h"
#include "schedule/nest_sums.h"
#include "support/check.h"

namespace autotune {
namespace {

using Index = Nest::Index;

Index SizeOf(const auto& table) { return static_cast<Index>(table.size()); }

bool HoldsLoop(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& inner) {
    found |= inner.As<For>() != nullptr;
    return !found;
  });
  return found;
}

// Rebuilds the tables of terms and sums without the entries that nothing refers to.
class Compactor {
 public:
  explicit Compactor(Nest& nest) : nest_(nest) {}

  void Run() {
    for (Nest::Iterator& iterator : nest_.iterators) iterator.binding = Copy(iterator.binding);
    for (Nest::Guard& guard : nest_.guards) guard.value = Copy(guard.value);
    for (Nest::Access& access : nest_.accesses) {
      const Index begin = SizeOf(sums_);
      sums_.resize(sums_.size() + static_cast<size_t>(access.subscripts.size));
      for (Index i = 0; i < access.subscripts.size; ++i) {
        const Nest::Sum copy = Copy(nest_.sums[access.subscripts.begin + i]);
        sums_[begin + i] = copy;
      }
      access.subscripts.begin = begin;
    }
    nest_.sums = std::move(sums_);
    nest_.terms = std::move(terms_);
  }

 private:
  Nest::Sum Copy(Nest::Sum sum) {
    std::span<const Nest::Term> from = nest_.TermsOf(sum);
    sum.terms.begin = SizeOf(terms_);
    terms_.insert(terms_.end(), from.begin(), from.end());
    for (Index i = 0; i < sum.terms.size; ++i) {
      const Nest::Term& term = terms_[sum.terms.begin + i];
      if (term.of != Nest::Of::kSum && term.of != Nest::Of::kOpaque) continue;
      const Nest::Sum nested = Copy(nest_.sums[term.index]);
      terms_[sum.terms.begin + i].index = SizeOf(sums_);
      sums_.push_back(nested);
    }
    return sum;
  }

  Nest& nest_;
  std::vector<Nest::Sum> sums_;
  std::vector<Nest::Term> terms_;
};
void Compact(Nest& nest) { Compactor(nest).Run(); }

// Walks a function and fills the tables of its Nest.
class Maker {
 public:
  Nest Make(const PrimFunc& func) {
    for (const Param& param : func.params) {
      AddBuffer(param.buffer, param.role == ParamRole::kInput      ? Nest::Role::kInput
                              : param.role == ParamRole::kConstant ? Nest::Role::kConstant
                                                                   : Nest::Role::kOutput);
    }
    for (const Buffer& buffer : func.allocs) AddBuffer(buffer, Nest::Role::kTemporary);
    Collect(func.body);
    for (const Hints& hints : hints_) AddPrefetch(hints);
    MarkPrepared(nest_);
    Compact(nest_);
    return std::move(nest_);
  }

 private:
  struct Variable {
    Nest::Of of;
    Index index;
  };
  // The annotation of a loop that prefetches (kPrefetchOf in ir/annotations.h).
  struct Hints {
    std::string key;            // the annotation's key without its prefix kPrefetchOf
    Index at;                   // the loop with the annotation
    std::vector<Index> around;  // the loops around `at`, and `at` itself
    Index first_block;          // the blocks inside `at` are [first_block, last_block)
    Index last_block = 0;
    int64_t ahead;
  };

  void AddBuffer(const Buffer& buffer, Nest::Role role) {
    Nest::Buffer entry{.name = buffer->name,
                       .element_bytes = buffer->dtype.Bytes(),
                       .scope = buffer->scope,
                       .role = role,
                       .dims = {SizeOf(nest_.dims), SizeOf(buffer->shape)}};
    std::vector<int64_t> shape;
    for (const Expr& extent : buffer->shape) shape.push_back(AsInt(extent) ? *AsInt(extent) : 1);
    std::vector<int64_t> strides = StridesOf(shape, buffer->dim_align);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!buffer->strides.empty() && AsInt(buffer->strides[d])) strides[d] = *AsInt(buffer->strides[d]);
      nest_.dims.push_back({shape[d], strides[d]});
    }
    buffers_[buffer->name] = SizeOf(nest_.buffers);
    nest_.buffers.push_back(entry);
  }

  // ---- Loops and blocks

  void Enter(const For& loop, const auto& body) {
    const int64_t* extent = AsInt(loop.extent);
    const Index index = SizeOf(nest_.loops);
    nest_.loops.push_back({.name = loop.var,
                           .extent = extent ? std::max<int64_t>(1, *extent) : 1,
                           .kind = loop.kind,
                           .symbolic = extent == nullptr,
                           .peeled = loop.annotations.contains(kPeel),
                           .overlap = loop.annotations.contains(kOverlap)});
    variables_[loop.var] = {Nest::Of::kLoop, index};
    around_.push_back(index);
    const size_t first_hint = hints_.size();
    for (const auto& [key, value] : loop.annotations) {
      if (!key.starts_with(kPrefetchOf)) continue;
      hints_.push_back({.key = key.substr(std::string_view(kPrefetchOf).size()),
                        .at = index,
                        .around = around_,
                        .first_block = SizeOf(nest_.blocks),
                        .ahead = value});
    }
    const size_t last_hint = hints_.size();
    body();
    for (size_t i = first_hint; i < last_hint; ++i) hints_[i].last_block = SizeOf(nest_.blocks);
    around_.pop_back();
  }

  void Collect(const Stmt& s) {
    s.Visit(Overloaded{
        [&](const For& f) { Enter(f, [&] { Collect(f.body); }); },
        [&](const Seq& seq) {
          for (const Stmt& child : seq.stmts) Collect(child);
        },
        [&](const If& n) {
          Under(n.condition, [&] { Collect(n.then_body); });
          if (n.else_body) Under(Not(n.condition), [&] { Collect(n.else_body); });
        },
        [&](const Block& b) { CollectBlock(b); },
        [&](const auto&) {},
    });
  }

  void Under(const Expr& condition, const auto& body) {
    conditions_.push_back(condition);
    body();
    conditions_.pop_back();
  }

  void CollectBlock(const Block& block) {
    iterators_ = {SizeOf(nest_.iterators), SizeOf(block.iters)};
    std::vector<Nest::Iterator> iterators;
    for (const Iter& iter : block.iters) {
      const int64_t* extent = AsInt(iter.extent);
      Nest::Iterator entry{
          .name = iter.var, .kind = iter.kind, .extent = extent ? *extent : 1, .binding = SumOf(iter.binding)};
      auto original = block.annotations.find(kOriginal + iter.var.str());
      entry.original = original == block.annotations.end() ? entry.extent : original->second;
      iterators.push_back(entry);
    }
    for (Nest::Iterator& iterator : iterators) {
      variables_[iterator.name] = {Nest::Of::kIterator, SizeOf(nest_.iterators)};
      nest_.iterators.push_back(iterator);
    }
    if (block.predicate) {
      Under(block.predicate, [&] { CollectBody(block, block.body); });
    } else {
      CollectBody(block, block.body);
    }
  }

  // Adds the statement `s` inside a block to the nest. A statement without loops becomes one Nest::Block. Of a sequence
  // that contains loops, each statement is added on its own. A loop inside the block counts like a loop around it.
  void CollectBody(const Block& block, const Stmt& s) {
    if (const For* loop = s.As<For>()) return Enter(*loop, [&] { CollectBody(block, loop->body); });
    if (const If* n = s.As<If>()) {
      Under(n->condition, [&] { CollectBody(block, n->then_body); });
      if (n->else_body) Under(Not(n->condition), [&] { CollectBody(block, n->else_body); });
      return;
    }
    const Seq* seq = s.As<Seq>();
    if (!seq || !HoldsLoop(s)) return AddBlock(block, s);
    for (const Stmt& child : seq->stmts) CollectBody(block, child);
  }

  void AddBlock(const Block& block, const Stmt& body) {
    Nest::Block entry{.name = block.name, .iterators = iterators_, .has_init = static_cast<bool>(block.init)};
    entry.loops = {SizeOf(nest_.loop_lists), SizeOf(around_)};
    nest_.loop_lists.insert(nest_.loop_lists.end(), around_.begin(), around_.end());
    entry.accesses.begin = SizeOf(nest_.accesses);
    Walk(
        body,
        [&](const Stmt& s) {
          entry.branches |= s.As<If>() != nullptr;
          if (const Store* store = s.As<Store>()) {
            AddAccess(entry, store->buffer, store->indices, true);
            entry.arithmetic.Add(ArithmeticOf(store->value));
          }
          return true;
        },
        [&](const Expr& e) {
          if (const Load* load = e.As<Load>()) AddAccess(entry, load->buffer, load->indices, false);
          return true;
        });
    known_.clear();
    std::vector<Nest::Guard> guards;
    for (const Expr& condition : conditions_) AddGuards(condition, guards);
    entry.guards = {SizeOf(nest_.guards), SizeOf(guards)};
    nest_.guards.insert(nest_.guards.end(), guards.begin(), guards.end());
    nest_.blocks.push_back(entry);
  }

  void AddAccess(Nest::Block& block, const Buffer& buffer, const std::vector<Expr>& indices, bool write) {
    auto same = [&](const std::vector<Expr>& other) { return std::ranges::equal(indices, other, EqualExprs); };
    const Index place = buffers_.at(buffer->name);
    for (Index i = 0; i < block.accesses.size; ++i) {
      Nest::Access& access = nest_.accesses[block.accesses.begin + i];
      if (access.buffer != place || !same(known_[i])) continue;
      (write ? access.writes : access.reads) = true;
      return;
    }
    std::vector<Nest::Sum> subscripts;
    for (const Expr& index : indices) subscripts.push_back(SumOf(index));
    nest_.accesses.push_back(
        {.buffer = place, .reads = !write, .writes = write, .subscripts = {SizeOf(nest_.sums), SizeOf(subscripts)}});
    nest_.sums.insert(nest_.sums.end(), subscripts.begin(), subscripts.end());
    known_.push_back(indices);
    ++block.accesses.size;
  }
  static bool EqualExprs(const Expr& a, const Expr& b) { return Equal(a, b); }

  void AddPrefetch(const Hints& hints) {
    const std::string_view key = hints.key;
    for (Index block = hints.first_block; block < hints.last_block; ++block) {
      const std::string block_part = nest_.blocks[block].name.str() + " ";
      if (!key.starts_with(block_part)) continue;
      for (Index buffer = 0; buffer < SizeOf(nest_.buffers); ++buffer) {
        const std::string prefix = block_part + nest_.buffers[buffer].name.str() + " ";
        if (!key.starts_with(prefix)) continue;
        for (Index loop : hints.around) {
          if (key.substr(prefix.size()) != nest_.loops[loop].name.str()) continue;
          nest_.prefetches.push_back(
              {.block = block, .buffer = buffer, .loop = loop, .at = hints.at, .ahead = hints.ahead});
          return;
        }
      }
    }
  }

  // ---- Conditions

  void AddGuards(const Expr& condition, std::vector<Nest::Guard>& out) {
    const Binary* b = condition.As<Binary>();
    if (b && b->op == BinaryOp::kAnd) {
      AddGuards(b->a, out);
      AddGuards(b->b, out);
      return;
    }
    std::optional<Nest::Guard> guard = b && b->a.dtype().IsIndex() ? Comparison(*b) : std::nullopt;
    if (!guard) {
      out.push_back({.value = Unknown(condition, {0, 1}), .low = 1, .high = 1});
    } else if (!sums_.BoundsOf(guard->value).Within(guard->low, guard->high)) {
      out.push_back(*guard);
    }
  }

  std::optional<Nest::Guard> Comparison(const Binary& b) {
    Nest::Guard guard{.value = sums_.Add(SumOf(b.a), SumOf(b.b), -1)};
    switch (b.op) {
      case BinaryOp::kLt:
        guard.high = -1;
        break;
      case BinaryOp::kLe:
        guard.high = 0;
        break;
      case BinaryOp::kGt:
        guard.low = 1;
        break;
      case BinaryOp::kGe:
        guard.low = 0;
        break;
      case BinaryOp::kEq:
        guard.low = guard.high = 0;
        break;
      default:
        return std::nullopt;
    }
    // Moves the constant into the bounds, so that x < 3 and x - 3 < 0 become equal guards.
    if (guard.low > -Nest::kUnbounded) guard.low -= guard.value.constant;
    if (guard.high < Nest::kUnbounded) guard.high -= guard.value.constant;
    guard.value.constant = 0;
    return guard;
  }

  // ---- Sums

  Nest::Sum SumOf(const Expr& e) {
    if (const int64_t* value = AsInt(e)) return NestSums::Constant(*value);
    if (const Var* var = e.As<Var>()) {
      const Variable& variable = variables_.at(var->name);
      return sums_.Variable(variable.of, variable.index);
    }
    if (const Cast* cast = e.As<Cast>(); cast && cast->a.dtype().IsInt()) return SumOf(cast->a);
    if (const Unary* unary = e.As<Unary>(); unary && unary->op == UnaryOp::kNeg)
      return sums_.Scale(SumOf(unary->a), -1);
    const Binary* b = e.As<Binary>();
    if (!b) return Unknown(e, Unbounded());
    const Nest::Sum x = SumOf(b->a), y = SumOf(b->b);
    const bool constant = y.terms.size == 0;
    switch (b->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
        return sums_.Add(x, y, b->op == BinaryOp::kAdd ? 1 : -1);
      case BinaryOp::kMul:
        if (constant) return sums_.Scale(x, y.constant);
        if (x.terms.size == 0) return sums_.Scale(y, x.constant);
        break;
      case BinaryOp::kFloorDiv:
        if (constant && y.constant > 0) return sums_.Div(x, y.constant);
        break;
      case BinaryOp::kFloorMod:
        if (constant && y.constant > 0) return sums_.Mod(x, y.constant);
        break;
      case BinaryOp::kMin:
        if (constant) return sums_.Clamp(x, -Nest::kUnbounded, y.constant);
        if (x.terms.size == 0) return sums_.Clamp(y, -Nest::kUnbounded, x.constant);
        break;
      case BinaryOp::kMax:
        if (constant) return sums_.Clamp(x, y.constant, Nest::kUnbounded);
        if (x.terms.size == 0) return sums_.Clamp(y, x.constant, Nest::kUnbounded);
        break;
      default:
        break;
    }
    const bool one_of_both = b->op == BinaryOp::kMin || b->op == BinaryOp::kMax;
    return Unknown(e, one_of_both ? Join(sums_.BoundsOf(x), sums_.BoundsOf(y)) : Unbounded());
  }

  static NestSums::Bounds Unbounded() { return {-Nest::kUnbounded, Nest::kUnbounded}; }
  static NestSums::Bounds Join(NestSums::Bounds x, NestSums::Bounds y) {
    return {std::min(x.low, y.low), std::max(x.high, y.high)};
  }

  // Returns an opaque value within `bounds` that depends on all variables of e.
  Nest::Sum Unknown(const Expr& e, NestSums::Bounds bounds) {
    if (const Select* select = e.As<Select>())
      bounds = Join(sums_.BoundsOf(SumOf(select->a)), sums_.BoundsOf(SumOf(select->b)));
    Nest::Sum with;
    std::vector<Name> names;
    Walk(e, [&](const Expr& x) {
      if (const Var* var = x.As<Var>(); var && std::ranges::find(names, var->name) == names.end())
        names.push_back(var->name);
      return true;
    });
    for (const Name& name : names) {
      const Variable& variable = variables_.at(name);
      with = sums_.Add(with, sums_.Variable(variable.of, variable.index));
    }
    return sums_.Opaque(with, bounds);
  }

  Nest nest_;
  NestSums sums_{nest_};
  std::unordered_map<Name, Variable> variables_;
  std::unordered_map<Name, Index> buffers_;
  std::vector<Index> around_;
  std::vector<Expr> conditions_;
  Nest::Range iterators_;                 // iterators of the current block
  std::vector<std::vector<Expr>> known_;  // subscripts of the current block's accesses
  std::vector<Hints> hints_;
};

}  // namespace

int64_t Nest::BytesOf(const Buffer& buffer) const {
  int64_t bytes = buffer.element_bytes;
  for (const Dim& dim : DimsOf(buffer)) bytes *= dim.extent;
  return bytes;
}

Nest NestOf(const PrimFunc& func) { return Maker().Make(func); }

void MarkPrepared(Nest& nest) {
  // Returns a number for the top-level statement that contains the block. It is the index of the outermost loop, or a
  // negative number if the block has no loops.
  auto statement_of = [&](size_t block) {
    const Nest::Range& loops = nest.blocks[block].loops;
    return loops.size > 0 ? nest.loop_lists[loops.begin] : Nest::kNone - 1 - static_cast<Index>(block);
  };
  for (Nest::Block& block : nest.blocks) block.prepared = true;
  // Returns true if a block that is not prepared writes the buffer.
  auto is_written = [&](Index buffer) {
    for (const Nest::Block& block : nest.blocks) {
      if (block.prepared) continue;
      for (const Nest::Access& access : nest.AccessesOf(block)) {
        if (access.writes && access.buffer == buffer) return true;
      }
    }
    return false;
  };
  auto may_be_prepared = [&](const Nest::Block& block) {
    for (const Nest::Access& access : nest.AccessesOf(block)) {
      const Nest::Buffer& buffer = nest.buffers[access.buffer];
      const bool temporary = buffer.role == Nest::Role::kTemporary && buffer.scope == Scope::kGlobal;
      if (access.writes && !temporary) return false;
      if (!temporary && buffer.role != Nest::Role::kConstant) return false;
      if (temporary && is_written(access.buffer)) return false;
    }
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < nest.blocks.size(); ++i) {
      if (!nest.blocks[i].prepared || may_be_prepared(nest.blocks[i])) continue;
      changed = true;
      for (size_t j = 0; j < nest.blocks.size(); ++j) {
        if (statement_of(i) == statement_of(j)) nest.blocks[j].prepared = false;
      }
    }
  }
}

}  // namespace autotune
