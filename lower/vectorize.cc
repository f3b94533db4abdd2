#include <algorithm>

#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr int64_t kMaxUnrolledCost = 400;  // estimated instructions; more costly loops over vectors stay loops

// Returns an estimate of the number of instructions of one iteration.
int64_t CostOf(const Stmt& s) {
  int64_t cost = 0;
  Walk(
      s,
      [&](const Stmt& x) {
        cost += x.As<Store>() != nullptr;
        return true;
      },
      [&](const Expr& x) {
        const Call* call = x.As<Call>();
        cost += call && Row(call->op).expanded ? (call->op == Op::kPow ? 150 : 40) : 1;
        return true;
      });
  return cost;
}

Expr Widen(const Expr& e, int lanes) { return e.dtype().lanes == lanes ? e : MakeBroadcast(e, lanes); }

// Turns one chunk of `lanes` iterations of a loop into vector statements. `var` runs over 0 .. lanes-1.
class Chunk {
 public:
  Chunk(Name var, int lanes, Analyzer analyzer) : var_(var), lanes_(lanes), analyzer_(std::move(analyzer)) {
    analyzer_.Bind(var, 0, lanes - 1);
  }
  std::optional<Error> error;

  Stmt Run(const Stmt& s) {
    return s.Visit(Overloaded{
        [&](const Store& n) {
          Expr index = Index(n.indices[0]);
          if (index.dtype().lanes == 1) {
            if (!error) {
              error = Err("loop ", var_, " cannot be vectorized: it writes one element of ", n.buffer->name,
                          " in every iteration");
            }
            return s;
          }
          return MakeStmt(Store{n.buffer, {index}, Widen(Value(n.value), lanes_)});
        },
        [&](const Evaluate& n) {
          return MakeStmt(Evaluate{Substitute(n.value, {{var_, Expr(0)}})});
        },
        [&](const Seq& n) {
          std::vector<Stmt> stmts;
          for (const Stmt& child : n.stmts) stmts.push_back(Run(child));
          return MakeSeq(std::move(stmts));
        },
        [&](const If& n) {
          Expr condition = analyzer_.Simplify(n.condition);
          if (UsesVar(condition, var_)) return OneByOne(s);
          return MakeStmt(If{condition, Run(n.then_body), n.else_body ? Run(n.else_body) : Stmt()});
        },
        [&](const For& n) {
          if (n.kind == LoopKind::kParallel || n.kind == LoopKind::kVectorized || UsesVar(n.extent, var_)) {
            if (!error) error = Err("loop ", n.var, " cannot be inside the vectorized loop ", var_);
            return s;
          }
          Analyzer outer = analyzer_;
          if (const int64_t* extent = AsInt(n.extent)) analyzer_.Bind(n.var, 0, *extent - 1);
          Stmt body = Run(n.body);
          analyzer_ = outer;
          return MakeStmt(For{n.var, n.extent, n.kind, n.annotations, body});
        },
        [&](const Let& n) {
          return Run(Substitute(n.body, {{n.var, n.value}}));
        },
        [&](const Alloc& n) {
          return MakeStmt(Alloc{n.buffer, Run(n.body)});
        },
        [&](const Block&) -> Stmt { UNREACHABLE(), std::abort(); },
    });
  }

 private:
  // Emits the iterations one after another, as scalars, for a guard that depends on the lane.
  Stmt OneByOne(const Stmt& s) {
    std::vector<Stmt> copies;
    for (int i = 0; i < lanes_; ++i) copies.push_back(Substitute(s, {{var_, Expr(i)}}));
    return MakeSeq(std::move(copies));
  }

  Expr Index(const Expr& e) {
    if (!UsesVar(e, var_)) return e;
    Expr index = analyzer_.Simplify(e);
    LinearForm form = ToLinear(index);
    int64_t stride = form.Coefficient(var_);
    if (!UsesVar(form.Rest(), var_)) {
      Expr base = Substitute(index, {{var_, Expr(0)}});
      return stride == 0 ? base : MakeRamp(base, Expr(stride), lanes_);
    }
    return Value(index);
  }

  Expr Value(const Expr& e) {
    if (!UsesVar(e, var_)) return e;
    if (e.As<Var>()) return MakeRamp(Expr(0), Expr(1), lanes_);
    if (const Load* load = e.As<Load>()) return MakeLoad(load->buffer, {Index(load->indices[0])});
    if (const Select* select = e.As<Select>()) {
      Expr a = Widen(Value(select->a), lanes_), b = Widen(Value(select->b), lanes_);
      Expr condition = select->condition.dtype().IsBool() && UsesVar(select->condition, var_)
                           ? Value(analyzer_.Simplify(select->condition))
                           : select->condition;
      return MakeSelect(condition, a, b);
    }
    return MapChildren(e, [&](const Expr& child) { return Widen(Value(child), lanes_); });
  }

  Name var_;
  int lanes_;
  Analyzer analyzer_;
};

// Returns the bits of the widest element type in the loop.
int ElementBits(const Stmt& s) {
  int bits = 8;
  Walk(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.As<Store>()) bits = std::max<int>(bits, store->buffer->dtype.bits);
        return true;
      },
      [&](const Expr& x) {
        if (!x.dtype().IsIndex() && !x.dtype().IsBool()) bits = std::max<int>(bits, x.dtype().bits);
        return true;
      });
  return bits;
}

class Vectorizer {
 public:
  explicit Vectorizer(const Target& target) : target_(target) {}
  std::optional<Error> error;

  Stmt Run(const Stmt& s, const Analyzer& outer) {
    if (error) return s;
    const For* loop = s.As<For>();
    Analyzer inside = outer;
    if (loop && AsInt(loop->extent)) inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
    if (!loop || loop->kind != LoopKind::kVectorized) {
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child, inside); }, nullptr);
    }
    const int64_t* extent = AsInt(loop->extent);
    if (!extent) {
      error = Err("loop ", loop->var, " is vectorized but its extent is not a constant");
      return s;
    }
    int64_t native = std::max<int64_t>(1, target_.VectorLanes(ElementBits(loop->body)));
    std::vector<Stmt> chunks;
    int64_t start = 0;
    if (*extent > native && *extent / native * CostOf(loop->body) > kMaxUnrolledCost && !IndexesRegisters(*loop)) {
      // Long loops become loops over vectors.
      Name outer_var = loop->var.str() + "_v";
      Analyzer with_outer = outer;
      with_outer.Bind(outer_var, 0, *extent / native - 1);
      Stmt body = Make(*loop, IndexVar(outer_var) * Expr(native), native, with_outer);
      chunks.push_back(MakeStmt(For{outer_var, Expr(*extent / native), LoopKind::kSerial, {}, body}));
      start = *extent / native * native;
    }
    while (start < *extent && !error) {
      int64_t lanes = native;
      while (lanes > *extent - start) lanes /= 2;
      chunks.push_back(Make(*loop, Expr(start), lanes, outer));
      start += lanes;
    }
    return MakeSeq(std::move(chunks));
  }

 private:
  Stmt Make(const For& loop, const Expr& start, int64_t lanes, const Analyzer& outer) {
    if (lanes == 1) return Substitute(loop.body, {{loop.var, start}});
    Stmt body = IsConst(start, 0) ? loop.body : Substitute(loop.body, {{loop.var, start + IndexVar(loop.var)}});
    Chunk chunk(loop.var, static_cast<int>(lanes), outer);
    Stmt result = chunk.Run(body);
    if (chunk.error && !error) error = std::move(chunk.error);
    return result;
  }

  static bool IndexesRegisters(const For& loop) {
    return TouchesBuffer(loop.body, [](const Buffer& b) { return b->scope == Scope::kRegister; });
  }

  const Target& target_;
};

}  // namespace

Result<PrimFunc> VectorizeLoops(const PrimFunc& f, PassEnv& env) {
  Vectorizer vectorizer(env.target);
  Stmt body = vectorizer.Run(f.body, Analyzer());
  if (vectorizer.error) return std::move(*vectorizer.error);
  return WithBody(f, WithUniqueNames(body));
}

}  // namespace autotune
