#include <algorithm>

#include "ir/annotations.h"
#include "ir/dot.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

struct Grown {
  Name var;
  int64_t old_extent;
  bool reduce;
};

Expr ClampVars(const Expr& e, const VarMap& clamp, const Name& own) {
  if (const Var* var = e.As<Var>()) {
    auto it = clamp.find(var->name);
    return it == clamp.end() ? e : it->second;
  }
  // The block's own accumulator needs no clamp: it grows like the block.
  if (e.As<Load>() && e.As<Load>()->buffer->name == own) return e;
  return MapChildren(e, [&](const Expr& child) { return ClampVars(child, clamp, own); });
}

// Keeps the reads of padded instances in bounds. The values that these instances read are not used.
//
// An iterator that is used only in last subscripts may become the lanes of a vector. A clamped subscript would make the
// lanes non-consecutive. So such a load is masked where the iterator exceeds its old extent:
//   b[k, n]  ->  select(n < N, b[k, n], 0)
// Every other iterator is clamped:
//   a[m, k]  ->  a[min(m, M - 1), k]
class ReadBounder {
 public:
  ReadBounder(const std::vector<Grown>& grown, const Ranges& before, const Ranges& after, const Name& own)
      : grown_(grown), before_(before), after_(after), own_(own) {
    for (const Grown& g : grown) all_[g.var] = Min(IndexVar(g.var), Expr(g.old_extent - 1));
  }

  // Returns `value` with its loads kept in bounds. If `mask` is false, clamps the loads that would otherwise be masked.
  // The checks need this form, which reads the same elements without conditions.
  Expr Bound(const Expr& value, bool mask) const {
    bool any = false;
    Walk(value, [&](const Expr& e) {
      if (const Load* load = e.As<Load>(); load && load->buffer->name != own_) {
        for (size_t d = 0; d < load->indices.size(); ++d) any |= Leaves(*load, d);
      }
      return true;
    });
    if (!any) return value;
    std::vector<Grown> lanes;
    std::copy_if(grown_.begin(), grown_.end(), std::back_inserter(lanes),
                 [&](const Grown& g) { return !g.reduce && OnlyInLastSubscripts(value, g.var); });
    VarMap clamp = all_;
    for (const Grown& g : lanes) clamp.erase(g.var);
    const Expr clamped = clamp.empty() ? value : ClampLoads(value, clamp);
    return lanes.empty() ? clamped : LeaveOut(clamped, lanes, mask);
  }

 private:
  struct Sides {
    bool low = false, high = false;
  };

  // Returns true if every use of `var` is in the last subscript of a load of a buffer other than own_. In nested loads,
  // the use must be in the last subscript of each of them.
  bool OnlyInLastSubscripts(const Expr& value, const Name& var) const {
    bool only = true;
    Walk(value, [&](const Expr& e) {
      const Var* v = e.As<Var>();
      only = only && !(v && v->name == var);
      return e.As<Load>() == nullptr;
    });
    Walk(value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load) return true;
      for (size_t d = 0; d + 1 < load->indices.size(); ++d)
        only = only && (load->buffer->name == own_ || !UsesVar(load->indices[d], var));
      return true;
    });
    return only;
  }

  Expr LeaveOut(const Expr& e, const std::vector<Grown>& lanes, bool mask) const {
    auto recurse = [&](const Expr& child) { return LeaveOut(child, lanes, mask); };
    VarMap clamp;
    for (const Grown& g : lanes) clamp[g.var] = all_.at(g.var);
    const Binary* binary = e.As<Binary>();
    // Clamps the loads in a divisor: a masked load would yield 0, by which nothing can be divided.
    if (binary && (binary->op == BinaryOp::kFloorDiv || binary->op == BinaryOp::kFloorMod))
      return MakeBinary(binary->op, recurse(binary->a), ClampVars(binary->b, clamp, own_));
    const Load* load = e.As<Load>();
    if (!load) return MapChildren(e, recurse);
    if (load->buffer->name == own_) return e;
    if (!Leaves(*load, load->indices.size() - 1)) return MapChildren(e, recurse);
    if (!mask) return ClampVars(e, clamp, own_);
    Expr inside;
    for (const Grown& g : lanes) {
      if (!UsesVar(load->indices.back(), g.var)) continue;
      Expr condition = IndexVar(g.var) < Expr(g.old_extent);
      inside = inside ? And(inside, condition) : condition;
    }
    return inside ? MakeSelect(inside, e, ConstOf(0, load->buffer->dtype)) : e;
  }

  // Returns true if the padding takes the index out of bounds.
  bool Leaves(const Load& load, size_t d) const {
    Sides sides = SidesLeft(load, d);
    return sides.low || sides.high;
  }

  Sides SidesLeft(const Load& load, size_t d) const {
    const int64_t* extent = AsInt(load.buffer->shape[d]);
    bool uses =
        std::any_of(grown_.begin(), grown_.end(), [&](const Grown& g) { return UsesVar(load.indices[d], g.var); });
    if (!uses) return {};
    std::optional<Bounds> old = BoundsOf(Normalize(load.indices[d], before_), before_),
                          bounds = BoundsOf(Normalize(load.indices[d], after_), after_);
    if (!old || !bounds || !extent) return {.low = true, .high = true};
    return {.low = bounds->low < std::min<int64_t>(old->low, 0), .high = bounds->high >= *extent};
  }

  // Returns the dimension along which lanes lie: the last one, or the one before it if that holds the groups of a dot
  // product (ir/dot.h).
  static size_t LaneDimension(const Load& load) {
    const size_t last = load.indices.size() - 1;
    const int group = DotGroup(load.buffer->dtype);
    return last > 0 && group > 0 && IsConst(load.buffer->shape[last], group) ? last - 1 : last;
  }

  // Clamps only the loads that would leave their buffers. Reads inside a select may be in bounds only because of its
  // condition, so all iterators in a select are clamped, also in its condition. A padded instance then takes the
  // select's value of the last original instance. So are all iterators of a load whose subscripts contain a load, which
  // must stay in bounds itself.
  Expr ClampLoads(const Expr& e, const VarMap& all) const {
    const Load* load = e.As<Load>();
    const bool nested = load && std::ranges::any_of(load->indices, [](const Expr& index) {
                          return HasNode<Select>(index) || HasNode<Load>(index);
                        });
    if (e.As<Select>() || (nested && load->buffer->name != own_)) return ClampVars(e, all, own_);
    if (!load) return MapChildren(e, [&](const Expr& child) { return ClampLoads(child, all); });
    if (load->buffer->name == own_ || load->indices.empty()) return e;
    VarMap clamp;
    const size_t lane = LaneDimension(*load);
    bool any = false, last = Leaves(*load, lane), contiguous = false;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      if (!Leaves(*load, d)) continue;
      for (const Grown& g : grown_) {
        if (!UsesVar(load->indices[d], g.var) || !all.contains(g.var)) continue;
        any = true;
        clamp[g.var] = all.at(g.var);
        contiguous |= !last && UsesVar(load->indices[lane], g.var);
      }
    }
    if (!any) return MapChildren(e, [&](const Expr& child) { return ClampLoads(child, all); });
    std::vector<Expr> indices;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      const Expr& index = load->indices[d];
      if (!contiguous) {
        // Clamps the iterator itself, so that all dimensions use the same value: in (m // W, m % W) the address stays
        // linear in min(m, M - 1).
        indices.push_back(ClampVars(index, clamp, own_));
      } else {
        // Clamps the index of this dimension instead of the iterator, so that the index of lanes keeps them
        // consecutive.
        Sides sides = SidesLeft(*load, d);
        Expr inside = sides.high ? Min(index, load->buffer->shape[d] - Expr(1)) : index;
        indices.push_back(sides.low ? Max(inside, Expr(0)) : inside);
      }
    }
    return MakeLoad(load->buffer, std::move(indices));
  }

  const std::vector<Grown>& grown_;
  const Ranges &before_, &after_;
  Name own_;
  VarMap all_;
};

// Checks that everything that padded instances read is computed. If the padding extends over a loop, a producer inside
// this loop must also compute the elements that the padded instances read. (A producer that moves into the loop later
// does so anyway.)
Status CheckProducersOutside(const State& state, const Block& block, const Name& grown, const Path& path) {
  auto iter = std::find_if(block.iters.begin(), block.iters.end(), [&](const Iter& i) { return i.var == grown; });
  for (const For* loop : path.Loops()) {
    if (!UsesVar(iter->binding, loop->var)) continue;
    for (const Name& buffer : BuffersRead(block)) {
      const bool alloc = IsAlloc(state.func, buffer);
      Status status;
      const std::vector<Name> writers = WritersOf(loop->body, buffer);
      ForEachBlock(state.func.body, [&](const Block& writer, const std::vector<const For*>& around) {
        if (!status.ok() || std::find(writers.begin(), writers.end(), writer.name) == writers.end()) return;
        // If the value has a condition, ClampVars will change its reads. They are not known here, so this is an error.
        bool plain = !writer.predicate && !IsReduction(writer) && !HasNode<Select>(SingleStore(block)->value);
        if (alloc && plain && ComputesAllRead(writer, around, block, path.Loops(), *FindBuffer(state.func, buffer)))
          return;
        status = Err("producer '", writer.name, "' is inside loop '", loop->var, "', over which the padding of block '",
                     block.name, "' extends; pad_block before moving the producer there");
      });
      TRY(status);
    }
  }
  return {};
}

// Returns true if e uses the iterator other than as min(iterator, old extent - 1). The use may then exceed the old
// extent.
bool Follows(const Expr& e, const Grown& grown) {
  bool any = false;
  const Expr clamped = Min(IndexVar(grown.var), Expr(grown.old_extent - 1));
  Walk(e, [&](const Expr& x) {
    any |= x.As<Var>() && x.As<Var>()->name == grown.var;
    return !autotune::Equal(x, clamped);
  });
  return any;
}

// Checks that the elements that only padded instances read are written. A producer that was moved to its consumers
// computes only the elements that they needed before the padding. `padded` is the padded block with clamped reads,
// `unclamped` the padded block with the reads of the original block.
Status CheckReadsWritten(const State& state, const Block& padded, const Block& unclamped,
                         const std::vector<Grown>& grown, const std::vector<Name>& shortened, const Path& path) {
  std::vector<Name> further;
  Ranges domain;
  for (const Iter& iter : padded.iters) domain.push_back({iter.var, *AsInt(iter.extent)});
  Name left;
  ForEachLoad(padded, [&](const Load& load) {
    for (size_t d = 0; d < load.indices.size(); ++d) {
      bool any = std::any_of(grown.begin(), grown.end(),
                             [&](const Grown& g) { return !g.reduce && Follows(load.indices[d], g); });
      bool short_of =
          std::any_of(shortened.begin(), shortened.end(), [&](const Name& v) { return UsesVar(load.indices[d], v); });
      if (any || short_of) further.push_back(load.buffer->name);
      // A condition in the value keeps the load in bounds. Without a condition, the removed guard may have done so.
      const int64_t* extent = AsInt(load.buffer->shape[d]);
      std::optional<Bounds> bounds = BoundsOf(Normalize(load.indices[d], domain), domain);
      bool inside = bounds && bounds->low >= 0 && extent && bounds->high < *extent;
      if (short_of && !inside && !HasNode<Select>(SingleStore(padded)->value)) left = load.buffer->name;
    }
  });
  if (!left.empty()) return Err("block '", padded.name, "' may read beyond buffer '", left, "' without its guard");
  for (const Name& name : further) {
    if (!IsAlloc(state.func, name) || Writes(padded, name)) continue;
    Buffer buffer = *FindBuffer(state.func, name);
    bool computed = CheckWrittenWhole(state.func, buffer).ok();
    ForEachBlock(state.func.body, [&](const Block& writer, const std::vector<const For*>& around) {
      computed = computed || (Writes(writer, name) && ComputesAllRead(writer, around, unclamped, path.Loops(), buffer));
    });
    if (!computed) {
      return Err("once padded, block '", padded.name, "' would read elements of buffer '", name,
                 "' that are not written; pad it before moving its producers");
    }
  }
  return {};
}

// If the conjunct of the guard is `binding < n`, for a spatial iterator and a number n less than its extent, returns
// the iterator's index. The original block does not write the elements from n on. So no consumer needs them, and the
// padded block may write them.
std::optional<size_t> ShortenedIter(const Block& block, const Expr& conjunct) {
  const Binary* less = conjunct.As<Binary>();
  if (!less || less->op != BinaryOp::kLt || !AsInt(less->b)) return std::nullopt;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const Iter& iter = block.iters[i];
    bool within = AsInt(iter.extent) && *AsInt(less->b) < *AsInt(iter.extent);
    if (iter.kind == IterKind::kSpatial && within && autotune::Equal(iter.binding, less->a)) return i;
  }
  return std::nullopt;
}

}  // namespace

// Legal for the only writer of an intermediate buffer, if it stores at plain iterators and each of its guards only
// bounds an iterator, by the iterator's extent or by a smaller number. If the number is smaller, the padded block also
// writes the rest of the extent.
Status ApplyStep(State& state, PadBlock& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  if (!block.predicate) return {};
  std::vector<Name> shortened;
  for (const Expr& conjunct : Conjuncts(block.predicate)) {
    if (std::optional<size_t> iter = ShortenedIter(block, conjunct)) {
      shortened.push_back(block.iters[*iter].var);
    } else if (!BoundedIter(block, conjunct)) {
      return Err("block '", block.name, "' has a guard that is not the bound of an iterator");
    }
  }
  const Store* store = SingleStore(block);
  if (!store) return Err("block '", block.name, "' is not a single store");
  Name own = store->buffer->name;
  if (!IsAlloc(state.func, own))
    return Err("block '", block.name, "' writes the parameter '", own, "'; cache_write it");
  if (WritersOf(state.func.body, own).size() != 1) {
    return Err("buffer '", own, "' has several writers; apply pad_block before decompose_reduction");
  }
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  std::optional<std::vector<size_t>> places = AsIterators(store->indices, block);
  Ranges loops = path.LoopRanges(), before, after;
  Buffer buffer = *FindBuffer(state.func, own);
  std::vector<Expr> shape = buffer->shape;
  std::vector<Grown> grown;
  Expr within;  // the condition that all reduction iterators are within their old extents
  for (size_t i = 0; i < block.iters.size(); ++i) {
    Iter& iter = block.iters[i];
    std::optional<Bounds> bounds = BoundsOf(iter.binding, loops);
    if (!bounds || bounds->low < 0) return Err("the range of iterator '", iter.var, "' is not known");
    before.push_back({iter.var, extents[i]});
    after.push_back({iter.var, std::max(extents[i], bounds->high + 1)});
    if (bounds->high < extents[i]) continue;
    iter.extent = Expr(bounds->high + 1);
    block.annotations.try_emplace(kOriginal + iter.var.str(), extents[i]);
    bool reduce = iter.kind == IterKind::kReduce;
    grown.push_back({iter.var, extents[i], reduce});
    if (reduce) {
      Expr condition = IndexVar(iter.var) < Expr(extents[i]);
      within = within ? And(within, condition) : condition;
      continue;
    }
    auto dim = places ? std::find(places->begin(), places->end(), i) : std::vector<size_t>::iterator();
    if (!places || dim == places->end())
      return Err("block '", block.name, "' must be one store whose indices are its spatial iterators");
    Expr& extent = shape[dim - places->begin()];
    if (!AsInt(extent) || *AsInt(extent) < bounds->high + 1) extent = Expr(bounds->high + 1);
  }
  block.predicate = Expr();
  for (const Grown& g : grown) TRY(CheckProducersOutside(state, block, g.var, path));
  for (const Name& iter : shortened) TRY(CheckProducersOutside(state, block, iter, path));
  const Block unclamped = block;
  if (within && !Reads(block, own)) return Err("block '", block.name, "' reduces without reading what it writes");
  const Store plain = *store;
  auto bounded = [&](bool mask) {
    Expr value = ReadBounder(grown, before, after, own).Bound(plain.value, mask);
    if (within) value = MakeSelect(within, value, MakeLoad(plain.buffer, plain.indices));
    return MakeStmt(Store{plain.buffer, plain.indices, value});
  };
  block.body = bounded(false);
  TRY(CheckReadsWritten(state, block, unclamped, grown, shortened, path));
  block.body = bounded(true);
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(block)));

  RedeclareAlloc(state.func, WithShape(buffer, std::move(shape)));
  return {};
}

}  // namespace autotune::schedule
