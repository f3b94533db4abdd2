// widen_loads: merges loads of neighbouring elements of shared memory into one load of a vector, into registers. The
// statements of an unrolled tile load each element by an instruction of its own; a vector needs only one instruction.
//
//   c[0] = fma(s[t * 4], x, c[0])              local s_lanes: f32[2] register
//   c[1] = fma(s[t * 4 + 1], x, c[1])    ->    s_lanes[ramp(0, 1, 2)] = s[ramp(t * 4, 1, 2)]
//                                              c[0] = fma(s_lanes[0], x, c[0])
//                                              c[1] = fma(s_lanes[1], x, c[1])
#include <algorithm>
#include <deque>
#include <map>

#include "ir/linear_form.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// Subscripts of one buffer that differ by constants.
struct Group {
  Buffer buffer;
  LinearForm form;  // without the constant
  std::set<int64_t> constants;
  std::map<int64_t, int64_t> vectors;  // constant of the first lane -> place in `registers`
  Buffer registers;                    // absent: there are no vectors
  std::set<int64_t> loaded;            // constants of the vectors already loaded
};

// A sequence of statements that write only registers, so that the contents of shared memory stay the same.
class Run {
 public:
  Run(std::vector<Stmt> stmts, const Target& target) : stmts_(std::move(stmts)), target_(target) {}

  static bool IsOf(const Stmt& s) {
    const Store* store = s.As<Store>();
    return store && store->buffer->scope == Scope::kRegister;
  }

  std::vector<Stmt> Widened() {
    for (const Stmt& s : stmts_) {
      ForEachPlainLoad(s.As<Store>()->value, [&](const Load& load) {
        const LinearForm form = ToLinear(load.indices[0]);
        GroupOf(load).constants.insert(form.constant);
      });
    }
    bool any = false;
    for (Group& group : groups_) any |= FindVectors(group);
    if (!any) return stmts_;
    std::vector<Stmt> widened;
    for (const Stmt& s : stmts_) {
      ForEachPlainLoad(s.As<Store>()->value, [&](const Load& load) { LoadVector(load, widened); });
      widened.push_back(Replaced(s));
    }
    Stmt all = MakeSeq(std::move(widened));
    for (const Group& group : groups_) {
      if (group.registers) all = MakeStmt(Alloc{group.registers, std::move(all)});
    }
    return {all};
  }

 private:
  // Calls f for each load of one element of shared memory that no condition guards.
  static void ForEachPlainLoad(const Expr& value, const std::function<void(const Load&)>& f) {
    Walk(value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (load && load->buffer->scope == Scope::kShared && e.dtype().lanes == 1) f(*load);
      return !load && !e.As<Select>();
    });
  }

  Group& GroupOf(const Load& load) {
    LinearForm form = ToLinear(load.indices[0]);
    form.constant = 0;
    auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return g.buffer->name == load.buffer->name && g.form.SameTerms(form);
    });
    if (found != groups_.end()) return *found;
    return groups_.emplace_back(Group{.buffer = load.buffer, .form = form});
  }

  int64_t LanesOf(const Buffer& buffer) const { return std::max(1, target_.VectorLanes(buffer->dtype.bits)); }

  // Finds all complete, aligned vectors. Returns true if there are any.
  bool FindVectors(Group& group) {
    const int64_t lanes = LanesOf(group.buffer);
    if (lanes < 2 || CommonFactor(group.form.ToExpr()) % lanes != 0) return false;
    int64_t elements = 0;
    for (int64_t first : group.constants) {
      bool whole = first % lanes == 0;
      for (int64_t lane = 1; lane < lanes && whole; ++lane) whole = group.constants.contains(first + lane);
      if (!whole) continue;
      group.vectors[first] = elements;
      elements += lanes;
    }
    if (elements == 0) return false;
    // Two groups of one buffer have two names; passes that copy statements make all names unique.
    const std::string number = buffers_++ == 0 ? "" : std::to_string(buffers_);
    group.registers = Buffer::Make(group.buffer->name.str() + "_lanes" + number, group.buffer->dtype, {Expr(elements)},
                                   Scope::kRegister);
    return true;
  }

  // Returns the entry of `vectors` whose vector holds the element; null if there is none.
  const std::pair<const int64_t, int64_t>* VectorOf(const Group& group, int64_t constant) const {
    auto next = group.vectors.upper_bound(constant);
    if (next == group.vectors.begin()) return nullptr;
    --next;
    return constant < next->first + LanesOf(group.buffer) ? &*next : nullptr;
  }

  void LoadVector(const Load& load, std::vector<Stmt>& out) {
    Group& group = GroupOf(load);
    const auto* vector = VectorOf(group, ToLinear(load.indices[0]).constant);
    if (!vector || !group.loaded.insert(vector->first).second) return;
    const int lanes = static_cast<int>(LanesOf(group.buffer));
    LinearForm first = group.form;
    first.constant = vector->first;
    out.push_back(MakeStmt(Store{group.registers,
                                 {MakeRamp(Expr(vector->second), Expr(1), lanes)},
                                 MakeLoad(group.buffer, {MakeRamp(first.ToExpr(), Expr(1), lanes)})}));
  }

  Expr Replaced(const Expr& e) {
    const Load* load = e.As<Load>();
    if (e.As<Select>()) return e;
    if (!load) return MapChildren(e, [&](const Expr& child) { return Replaced(child); });
    if (load->buffer->scope != Scope::kShared || e.dtype().lanes != 1) return e;
    const int64_t constant = ToLinear(load->indices[0]).constant;
    const Group& group = GroupOf(*load);
    const auto* vector = VectorOf(group, constant);
    return vector ? MakeLoad(group.registers, {Expr(vector->second + constant - vector->first)}) : e;
  }
  Stmt Replaced(const Stmt& s) {
    const Store& store = *s.As<Store>();
    return MakeStmt(Store{store.buffer, store.indices, Replaced(store.value)});
  }

  const std::vector<Stmt> stmts_;
  const Target& target_;
  std::deque<Group> groups_;
  int buffers_ = 0;  // number of register buffers made
};

}  // namespace

Result<PrimFunc> WidenLoads(const PrimFunc& f, PassEnv& env) {
  Stmt body = RewriteStmt(f.body, [&](const Stmt& s) {
    const Seq* seq = s.As<Seq>();
    if (!seq) return s;
    std::vector<Stmt> out;
    for (size_t i = 0; i < seq->stmts.size();) {
      size_t end = i;
      while (end < seq->stmts.size() && Run::IsOf(seq->stmts[end])) ++end;
      if (end - i < 2) {
        out.push_back(seq->stmts[i++]);
        continue;
      }
      const auto from = seq->stmts.begin() + static_cast<int64_t>(i),
                 to = seq->stmts.begin() + static_cast<int64_t>(end);
      for (Stmt& widened : Run({from, to}, env.target).Widened()) out.push_back(std::move(widened));
      i = end;
    }
    return MakeSeq(std::move(out));
  });
  return WithBody(f, WithUniqueNames(body));
}

}  // namespace autotune
