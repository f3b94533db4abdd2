// tensor_cores: replaces the loops that a warp shall compute together by one instruction (ir/mma.h). Each thread loads
// its parts of both operands into registers, whatever their addresses are. Parts of f32 operands are rounded to TF32.
//
//   for h in 2 { for p in 2 { for k in 8 {              local a: f32[4], b: f32[2], c: f32[4] register
//     c[h, p] = fma(tf32(s[y, h, k]),          ->       a[0] = tf32(s[y, 0, x]); ..
//                   tf32(t[k, x, p]), c[h, p])          b[0] = tf32(t[x, y % 8 // 2, y % 2]); ..
//   } } }                                               c[..] = mma(c[..], a[..], b[..])
//
// A later pass merges equal loads of several products, since nothing is stored to memory between these products.
#include "ir/annotations.h"
#include "ir/linear_form.h"
#include "ir/mma.h"
#include "lower/passes.h"

namespace autotune {
namespace {

Expr Lanes(const Buffer& registers, int64_t count) {
  return MakeLoad(registers, {MakeRamp(Expr(0), Expr(1), static_cast<int>(count))});
}

class Replacer {
 public:
  explicit Replacer(const Target& target) : target_(target) {}
  std::optional<Error> error;

  Stmt Run(const Stmt& s) {
    if (error) return s;
    const For* loop = s.As<For>();
    if (loop && loop->annotations.contains(kMma)) return Product(s);
    auto child = [&](const Stmt& x) { return Run(x); };
    const If* branch = s.As<If>();
    const Let* let = s.As<Let>();
    if (let && Differs(let->value)) differing_.insert(let->var);
    const bool divergent = (branch && Differs(branch->condition)) || (loop && Differs(loop->extent));
    divergent_ += divergent;
    if (loop) around_.push_back(loop);
    if (loop && IsThreadAxis(loop->kind)) differing_.insert(loop->var);
    Stmt mapped = MapChildren(s, child, nullptr);
    if (loop) around_.pop_back();
    divergent_ -= divergent;
    return mapped;
  }

 private:
  Stmt Fail(const Stmt& s, const std::string& why) {
    error = Err("loop ", s.As<For>()->var, " cannot be computed by tensor cores: ", why);
    return s;
  }

  // Returns true if the expression may have different values in different threads.
  bool Differs(const Expr& e) const {
    return HasNode<Load>(e) || UsesVar(e, [&](const Name& v) { return differing_.contains(v); });
  }

  std::string WhyNot(const MmaType& type) const {
    if (target_.kind == TargetKind::kOpenCl) return "OpenCL C has no instruction for them";
    if (!target_.has_mma) return target_.arch + " has none that multiply " + type.operand.Text();
    if (type.operand == DType::Float(32) && !target_.tf32) return "the target does not allow TF32 (-tf32=1)";
    return "";
  }

  Stmt Product(const Stmt& s) {
    const Result<MmaThreads> threads = FindMmaThreads(around_);
    if (!threads.ok()) return Fail(s, threads.error().message);
    const Result<MmaLoops> loops = MatchMma(s, threads->x, threads->y);
    if (!loops.ok()) return Fail(s, loops.error().message);
    if (const std::string why = WhyNot(*loops->type); !why.empty()) return Fail(s, why);
    if (divergent_ > 0)
      return Fail(s, "the threads of a warp may reach it under a condition that differs between them");
    for (const Expr& operand : {loops->a, loops->b}) {
      const bool hidden = UsesVar(operand, [&](const Name& v) {
        return differing_.contains(v) &&
               std::none_of(around_.begin(), around_.end(), [&](const For* loop) { return loop->var == v; });
      });
      if (hidden) return Fail(s, "an operand uses a value that differs between threads");
    }
    const Scope scope = loops->update.buffer->scope;
    if (scope != Scope::kRegister && scope != Scope::kLocal)
      return Fail(s, "its sums are in memory that other threads can access");
    return Parts(*loops, *threads);
  }

  Stmt Parts(const MmaLoops& loops, const MmaThreads& threads) const {
    const MmaType& type = *loops.type;
    const Expr x = IndexVar(threads.x), group = FloorMod(IndexVar(threads.y), Expr(kMmaGroups));
    auto registers = [&](const char* name, DType dtype, int64_t count) {
      return Buffer::Make(Name(name), dtype, {Expr(count)}, Scope::kRegister);
    };
    const Buffer a = registers("mma_a", type.operand, type.a_elements()),
                 b = registers("mma_b", type.operand, type.b_elements()),
                 c = registers("mma_c", DType::Float(32), kMmaSums);
    std::vector<Stmt> stmts;
    Fill(a, loops, loops.a, stmts, [&](int e) {
      const MmaPlace at = PlaceInA(type, e);
      return VarMap{{loops.half, Expr(at.half)}, {loops.k, x * Expr(type.pack) + Expr(at.k)}};
    });
    Fill(b, loops, loops.b, stmts, [&](int e) {
      return VarMap{{threads.x, FloorDiv(group, Expr(2))},
                    {loops.pair, FloorMod(group, Expr(2))},
                    {loops.k, x * Expr(type.pack) + Expr(PlaceInB(type, e).k)}};
    });
    auto sum = [&](int e) {
      const MmaPlace at = PlaceInC(e);
      return Substitute(loops.update.indices[0], {{loops.half, Expr(at.half)}, {loops.pair, Expr(at.pair)}});
    };
    for (int e = 0; e < kMmaSums; ++e)
      stmts.push_back(MakeStmt(Store{c, {Expr(e)}, MakeLoad(loops.update.buffer, {sum(e)})}));
    const Expr product =
        MakeCall(Op::kMma, {Lanes(c, kMmaSums), Lanes(a, type.a_elements()), Lanes(b, type.b_elements())});
    stmts.push_back(MakeStmt(Store{c, {MakeRamp(Expr(0), Expr(1), kMmaSums)}, product}));
    for (int e = 0; e < kMmaSums; ++e)
      stmts.push_back(MakeStmt(Store{loops.update.buffer, {sum(e)}, MakeLoad(c, {Expr(e)})}));
    Stmt all = MakeSeq(std::move(stmts));
    for (const Buffer& buffer : {c, b, a}) all = MakeStmt(Alloc{buffer, std::move(all)});
    return all;
  }

  // Loads a lane's part of an operand. Numbers that share a register are loaded together if they are neighbours in
  // memory.
  template <class PlaceOf>
  void Fill(const Buffer& registers, const MmaLoops& loops, const Expr& operand, std::vector<Stmt>& out,
            const PlaceOf& place) const {
    const int pack = NeighboursAlong(operand, loops.k) ? loops.type->pack : 1;
    const int64_t count = *AsInt(registers->shape[0]);
    for (int e = 0; e < static_cast<int>(count); e += pack) {
      Expr value = Substitute(operand, place(e)), to = Expr(e);
      if (pack > 1) {
        const Load& load = *value.As<Load>();
        value = MakeLoad(load.buffer, {MakeRamp(load.indices[0], Expr(1), pack)});
        to = MakeRamp(to, Expr(1), pack);
      }
      if (loops.type->operand == DType::Float(32)) value = MakeCall(Op::kTf32, {value});
      out.push_back(MakeStmt(Store{registers, {to}, value}));
    }
  }

  // Returns true if the operands for k and k + 1 are neighbours in memory.
  static bool NeighboursAlong(const Expr& operand, const Name& k) {
    const Load* load = operand.As<Load>();
    if (!load) return false;
    LinearForm index = ToLinear(load->indices[0]);
    if (index.Coefficient(k) != 1) return false;
    index.Add(IndexVar(k), -1);
    return !UsesVar(index.ToExpr(), k);
  }

  const Target& target_;
  std::vector<const For*> around_;
  std::set<Name> differing_;  // variables
  int divergent_ = 0;         // enclosing conditions and extents that differ between threads
};

}  // namespace

Result<PrimFunc> TensorCores(const PrimFunc& f, PassEnv& env) {
  bool any = false;
  Walk(f.body, [&](const Stmt& s) { return any |= s.As<For>() && s.As<For>()->annotations.contains(kMma), !any; });
  if (!any) return f;
  Replacer replacer(env.target);
  const Stmt body = replacer.Run(f.body);
  if (replacer.error) return std::move(*replacer.error);
  return WithBody(f, WithUniqueNames(body));
}

}  // namespace autotune
