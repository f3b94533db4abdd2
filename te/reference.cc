#include "te/reference.h"

#include <algorithm>
#include <unordered_set>

#include "ir/byte_table.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune::te {
namespace {

const DType kWide = DType::Float(64);

bool IsNarrowFloat(DType dtype) { return dtype.IsFloat() && dtype != kWide; }

// Rewrites float arithmetic to f64. Buffers in `wide_` were replaced by f64 buffers of the same subscripts.
class Widener {
 public:
  explicit Widener(BufferMap wide) : wide_(std::move(wide)) {}

  Expr Widen(const Expr& e) const {
    return e.Visit([&](const auto& node) -> Expr { return Node(e, node); });
  }

  Stmt Widen(const Stmt& s) const {
    if (const Store* store = s.As<Store>()) {
      std::vector<Expr> indices;
      for (const Expr& i : store->indices) indices.push_back(Widen(i));
      auto it = wide_.find(store->buffer->name);
      const Buffer& buffer = it == wide_.end() ? store->buffer : it->second;
      return MakeStmt(Store{buffer, indices, MakeCast(buffer->dtype, Widen(store->value))});
    }
    return MapChildren(
        s, [&](const Stmt& child) { return Widen(child); }, [&](const Expr& e) { return Widen(e); });
  }

 private:
  Expr Node(const Expr& e, const FloatImm& node) const {
    return IsNarrowFloat(e.dtype()) ? FloatConst(node.value, kWide) : e;
  }
  Expr Node(const Expr&, const Binary& node) const { return MakeBinary(node.op, Widen(node.a), Widen(node.b)); }
  Expr Node(const Expr&, const Unary& node) const { return MakeUnary(node.op, Widen(node.a)); }
  Expr Node(const Expr&, const Select& node) const {
    return MakeSelect(Widen(node.condition), Widen(node.a), Widen(node.b));
  }
  Expr Node(const Expr& e, const Cast& node) const {
    return MakeCast(IsNarrowFloat(e.dtype()) ? kWide : e.dtype(), Widen(node.a));
  }
  Expr Node(const Expr& e, const Load& node) const {
    std::vector<Expr> indices;
    for (const Expr& i : node.indices) indices.push_back(Widen(i));
    auto it = wide_.find(node.buffer->name);
    Expr load = MakeLoad(it == wide_.end() ? node.buffer : it->second, std::move(indices));
    return IsNarrowFloat(e.dtype()) ? MakeCast(kWide, load) : load;
  }
  Expr Node(const Expr& e, const Call& node) const {
    if (node.op == Op::kReinterpret) return Reinterpreted(e, node);
    bool own_dtype = (Row(node.op).expanded || node.op == Op::kTf32) && IsNarrowFloat(e.dtype());
    std::vector<Expr> args;
    for (const Expr& arg : node.args) {
      Expr wide = Widen(arg);
      args.push_back(own_dtype ? MakeCast(arg.dtype(), wide) : wide);
    }
    Expr call = MakeCall(node.op, std::move(args));
    return own_dtype ? MakeCast(kWide, call) : call;
  }
  // Reinterprets the bits of the number after rounding it to its original type.
  Expr Reinterpreted(const Expr& e, const Call& node) const {
    const Expr& arg = node.args[0];
    Expr bits = MakeExpr(e.dtype(), Call{Op::kReinterpret, {MakeCast(arg.dtype(), Widen(arg))}});
    return IsNarrowFloat(e.dtype()) ? MakeCast(kWide, bits) : bits;
  }
  Expr Node(const Expr& e, const IntImm&) const { return e; }
  Expr Node(const Expr& e, const Var&) const { return e; }
  // Ramps and broadcasts do not occur before vectorization.
  Expr Node(const Expr& e, const Ramp&) const { return e; }
  Expr Node(const Expr& e, const Broadcast&) const { return e; }

  BufferMap wide_;
};

// Collects the buffers whose values decide an index (but for look-ups, whose tables have an entry for each byte), the
// extent of a loop, a divisor or a shift count.
class SteeringBuffers {
 public:
  explicit SteeringBuffers(const PrimFunc& f) {
    Walk(
        f.body,
        [&](const Stmt& s) {
          if (const Store* store = s.As<Store>()) Add(store->indices);
          if (const For* loop = s.As<For>()) Add(loop->extent);
          return true;
        },
        [&](const Expr& e) {
          if (const Load* load = e.As<Load>(); load && !LookedUpByte(*load)) Add(load->indices);
          if (const Binary* binary = e.As<Binary>(); binary && IsSteered(binary->op)) Add(binary->b);
          return true;
        });
    // A buffer that is computed from others passes its role on to them.
    for (size_t before = 0; before != names_.size();) {
      before = names_.size();
      ForEachStore(f.body, [&](const Store& store) {
        if (Has(store.buffer->name)) Add(store.value);
      });
    }
  }
  bool Has(const Name& buffer) const { return names_.contains(buffer); }

 private:
  static bool IsSteered(BinaryOp op) {
    return op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod || op == BinaryOp::kShl ||
           op == BinaryOp::kShr;
  }
  void Add(const Expr& e) {
    Walk(e, [&](const Expr& x) {
      if (const Load* load = x.As<Load>()) names_.insert(load->buffer->name);
      return true;
    });
  }
  void Add(const std::vector<Expr>& indices) {
    for (const Expr& index : indices) Add(index);
  }

  std::unordered_set<Name> names_;
};

bool HasFloats(const PrimFunc& f) {
  bool found = false;
  Walk(
      f.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        found |= e.dtype().IsFloat();
        return !found;
      });
  return found;
}

// Returns true if a float is stored where it is read, as sums do.
bool AccumulatesFloats(const PrimFunc& f) {
  bool found = false;
  ForEachStore(f.body, [&](const Store& store) {
    if (!store.buffer->dtype.IsFloat()) return;
    Walk(store.value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      found |= load && load->buffer->name == store.buffer->name;
      return !found;
    });
  });
  return found;
}

class Names {
 public:
  explicit Names(const PrimFunc& f) {
    for (const Param& p : f.params) used_.insert(p.buffer->name);
    for (const Buffer& b : f.allocs) used_.insert(b->name);
    Walk(f.body, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) used_.insert(loop->var);
      if (const Block* block = s.As<Block>()) {
        used_.insert(block->name);
        for (const Iter& iter : block->iters) used_.insert(iter.var);
      }
      return true;
    });
  }
  Name Unique(const std::string& base) {
    Name name = base;
    for (int i = 1; !used_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }

 private:
  std::unordered_set<Name> used_;
};

struct Nest {
  std::vector<For> loops;  // outermost first; bodies unused
  Block block;
};

// Returns true and sets `nest` if s is a perfect nest around one block, whose iterators are bound one to one to loops.
bool ToNest(const Stmt& s, Nest* nest) {
  Stmt body = s;
  while (const For* loop = body.As<For>()) {
    if (loop->kind != LoopKind::kSerial) return false;
    nest->loops.push_back(*loop);
    body = loop->body;
  }
  const Block* block = body.As<Block>();
  if (!block || block->predicate || block->iters.size() != nest->loops.size()) return false;
  nest->block = *block;
  for (size_t i = 0; i < block->iters.size(); ++i) {
    const Var* var = block->iters[i].binding.As<Var>();
    if (!var || var->name != nest->loops[i].var || !Equal(block->iters[i].extent, nest->loops[i].extent)) return false;
  }
  return true;
}

// Emits the loops in the order `order` (positions in nest.loops, outermost first). The first spatial loop with several
// iterations becomes parallel, unless a reduction loop is around it.
Stmt Emit(const Nest& nest, const std::vector<size_t>& order) {
  size_t parallel = nest.loops.size();
  for (size_t i : order) {
    if (nest.block.iters[i].kind == IterKind::kSpatial && !IsConst(nest.loops[i].extent, 1)) {
      parallel = i;
      break;
    }
  }
  Stmt s = MakeStmt(nest.block);
  for (size_t k = order.size(); k-- > 0;) {
    For loop = nest.loops[order[k]];
    loop.body = s;
    // A parallel loop inside a reduction loop would start the threads again in each iteration of the reduction.
    bool outermost = std::all_of(order.begin(), order.begin() + k,
                                 [&](size_t i) { return nest.block.iters[i].kind == IterKind::kSpatial; });
    if (order[k] == parallel && outermost) loop.kind = LoopKind::kParallel;
    s = MakeStmt(loop);
  }
  return s;
}

// Makes the initialisation a nest of its own, and puts the reduction loops around the last spatial loop.
Stmt Reorder(const Nest& nest, Names* names) {
  std::vector<size_t> spatial, reduce;
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    (nest.block.iters[i].kind == IterKind::kSpatial ? spatial : reduce).push_back(i);
  }
  if (reduce.empty()) return Emit(nest, spatial);
  std::vector<Stmt> stmts;
  Nest update = nest;
  if (nest.block.init) {
    Nest init;
    init.block.name = names->Unique(nest.block.name.str() + "_init");
    VarMap renamed;
    std::vector<size_t> order;
    for (size_t i : spatial) {
      For loop = nest.loops[i];
      Iter iter = nest.block.iters[i];
      Name old = iter.var;
      loop.var = names->Unique(loop.var.str() + "_init");
      iter.var = names->Unique(iter.var.str() + "_init");
      iter.binding = IndexVar(loop.var);
      renamed.emplace(old, IndexVar(iter.var));
      order.push_back(init.loops.size());
      init.loops.push_back(loop);
      init.block.iters.push_back(iter);
    }
    init.block.body = Substitute(nest.block.init, renamed);
    stmts.push_back(Emit(init, order));
    update.block.init = Stmt();
  }
  std::vector<size_t> order = spatial;
  if (order.size() > 1) order.pop_back();
  order.insert(order.end(), reduce.begin(), reduce.end());
  if (spatial.size() > 1) order.push_back(spatial.back());
  stmts.push_back(Emit(update, order));
  return MakeSeq(std::move(stmts));
}

Stmt ReorderNests(const Stmt& s, Names* names) {
  if (const Seq* seq = s.As<Seq>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : seq->stmts) stmts.push_back(ReorderNests(child, names));
    return MakeSeq(std::move(stmts));
  }
  Nest nest;
  return ToNest(s, &nest) ? Reorder(nest, names) : s;
}

Stmt CopyNest(const Buffer& from, const Buffer& to, Names* names) {
  Block block;
  block.name = names->Unique("round_" + to->name.str());
  std::vector<Expr> vars;
  std::vector<Name> loops;
  for (size_t i = 0; i < to->shape.size(); ++i) {
    Name loop = names->Unique(block.name.str() + "_i" + std::to_string(i));
    Name iter = names->Unique("v_" + loop.str());
    loops.push_back(loop);
    block.iters.push_back({iter, IterKind::kSpatial, to->shape[i], IndexVar(loop)});
    vars.push_back(IndexVar(iter));
  }
  block.body = MakeStmt(Store{to, vars, MakeCast(to->dtype, MakeLoad(from, vars))});
  Stmt s = MakeStmt(block);
  for (size_t i = loops.size(); i-- > 0;) s = MakeStmt(For{.var = loops[i], .extent = to->shape[i], .body = s});
  return s;
}

}  // namespace

bool TakesSteps(const PrimFunc& f) {
  bool steps = false;
  Walk(
      f.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const Call* call = e.As<Call>();
        const Cast* cast = e.As<Cast>();
        const Binary* binary = e.As<Binary>();
        steps |= call && (call->op == Op::kFloor || call->op == Op::kCeil || call->op == Op::kRound);
        steps |= cast && cast->a.dtype().IsFloat() && !e.dtype().IsFloat();
        steps |= binary && binary->a.dtype().IsFloat() && !e.dtype().IsFloat();
        return !steps;
      });
  return steps;
}

std::vector<int64_t> FullRangeInputs(const PrimFunc& f) {
  std::vector<int64_t> inputs;
  if (TakesSteps(f) && AccumulatesFloats(f)) return inputs;
  const SteeringBuffers steering(f);
  const bool floats = HasFloats(f);
  for (size_t i = 0; i < f.params.size(); ++i) {
    const DType type = f.params[i].buffer->dtype;
    const bool fits = type.IsInt() && (type.bits == 8 || (type.bits > 8 && !floats));
    if (fits && f.params[i].role != ParamRole::kOutput && !steering.Has(f.params[i].buffer->name))
      inputs.push_back(static_cast<int64_t>(i));
  }
  return inputs;
}

PrimFunc ToReference(const PrimFunc& f) {
  Names names(f);
  BufferMap wide;
  PrimFunc out = f;
  if (TakesSteps(f)) {
    out.body = ReorderNests(f.body, &names);
    return out;
  }
  std::vector<std::pair<Buffer, Buffer>> copies;  // f64 buffer, output
  for (Buffer& buffer : out.allocs) {
    if (!IsNarrowFloat(buffer->dtype)) continue;
    Buffer replacement = Buffer::Make(buffer->name, kWide, buffer->shape);
    wide.emplace(buffer->name, replacement);
    buffer = replacement;
  }
  // An output that the function reads (a reduction accumulates in it) gets an f64 buffer, whose values are rounded into
  // the output at the end.
  for (const Param& p : f.params) {
    if (p.role != ParamRole::kOutput || !IsNarrowFloat(p.buffer->dtype) || !Reads(f.body, p.buffer->name)) continue;
    Buffer shadow = Buffer::Make(names.Unique(p.buffer->name.str() + "_f64"), kWide, p.buffer->shape);
    wide.emplace(p.buffer->name, shadow);
    out.allocs.push_back(shadow);
    copies.emplace_back(shadow, p.buffer);
  }
  std::vector<Stmt> stmts{Widener(std::move(wide)).Widen(f.body)};
  for (const auto& [from, to] : copies) stmts.push_back(CopyNest(from, to, &names));
  out.body = ReorderNests(MakeSeq(std::move(stmts)), &names);
  return out;
}

}  // namespace autotune::te
