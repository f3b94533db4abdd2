// Loops over threads with barriers: all threads run each piece of them that has no barrier, then the next piece. What
// decides about reaching a barrier must be the same for all of them.
#include "ir/interp_machine.h"
#include "ir/text.h"
#include "ir/threads.h"

namespace autotune::interp {

void ThreadGroups::Fork(const Name& var, LoopKind axis, int64_t extent) {
  std::vector<VirtualThread> children;
  std::vector<VirtualThread>& parents = threads();
  for (size_t p = 0; p < parents.size(); ++p) {
    int64_t instance = ++instances_;
    for (int64_t i = 0; i < extent; ++i) {
      VirtualThread child = parents[p];
      child.parent = p;
      child.index = i;
      child.env.emplace_back(var, std::vector<Scalar>{Scalar{i, 0}});
      child.id[axis] = i;
      if (track_) child.path = paths_.Enter(parents[p].path, instance, i, child.id);
      children.push_back(std::move(child));
    }
  }
  levels_.push_back(std::move(children));
}

void ThreadGroups::Barrier() {
  if (!track_) return;
  for (size_t level = 1; level < levels_.size(); ++level) {
    size_t parent = levels_[level - 1].size();
    int64_t instance = 0;
    for (VirtualThread& thread : levels_[level]) {
      if (thread.parent != parent) instance = ++instances_;
      parent = thread.parent;
      thread.path = paths_.Enter(levels_[level - 1][parent].path, instance, thread.index, thread.id);
    }
  }
}

void Machine::ExecTogether(const For& n) {
  ThreadGroups groups({env_, id_, path_, 0, 0, {}, {}}, paths_, instances_, options_.detect_races);
  auto outer = std::make_tuple(env_, id_, path_);
  Together(n, groups);
  std::tie(env_, id_, path_) = outer;
}

void Machine::Together(const For& n, ThreadGroups& groups) {
  int64_t extent = Uniform(groups, n.extent, "the extent of loop " + n.var.str());
  if (!ok()) return;
  if (IsThreadAxis(n.kind)) {
    groups.Fork(n.var, n.kind, extent);
    for (const Buffer& buffer : OwnAllocs(n)) DeclareInEach(groups, buffer);
    Together(n.body, groups);
    for (const VirtualThread& thread : groups.threads()) CheckAwaited(thread.flights, thread.id);
    groups.Join();
    return;
  }
  if (n.kind == LoopKind::kParallel || IsBound(n.kind)) return Fail("a barrier in loop " + n.var.str());
  for (VirtualThread& thread : groups.threads()) thread.env.emplace_back(n.var, std::vector<Scalar>(1));
  for (int64_t i = 0; i < extent && ok(); ++i) {
    for (VirtualThread& thread : groups.threads()) thread.env.back().second[0].i = i;
    Together(n.body, groups);
  }
  for (VirtualThread& thread : groups.threads()) thread.env.pop_back();
}

void Machine::Together(const Stmt& s, ThreadGroups& groups) {
  if (!ok() || !s) return;
  if (!HasBarrier(s)) return InEach(groups, [&] { Exec(s); });
  if (IsBarrier(s)) {
    InEach(groups, [&] { LandSome(); });
    return groups.Barrier();
  }
  if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) Together(child, groups);
  } else if (const For* loop = s.As<For>()) {
    Together(*loop, groups);
  } else if (const If* branch = s.As<If>()) {
    bool taken = Uniform(groups, branch->condition, "the condition " + ToText(branch->condition));
    Together(taken ? branch->then_body : branch->else_body, groups);
  } else if (const Let* let = s.As<Let>()) {
    InEach(groups, [&] {
      std::vector<Scalar> lanes;
      for (int lane = 0; lane < let->value.dtype().lanes; ++lane) lanes.push_back(EvalLane(let->value, lane));
      env_.emplace_back(let->var, std::move(lanes));
    });
    Together(let->body, groups);
    for (VirtualThread& thread : groups.threads()) thread.env.pop_back();
  } else if (const Alloc* alloc = s.As<Alloc>()) {
    DeclareInEach(groups, alloc->buffer);
    Together(alloc->body, groups);
    for (VirtualThread& thread : groups.threads()) thread.own.erase(alloc->buffer->name);
  } else {
    Fail("a barrier where threads cannot wait");
  }
}

void Machine::In(VirtualThread& thread, const std::function<void()>& f) {
  if (!ok()) return;
  auto exchange = [&] {
    for (auto& [name, memory] : thread.own) std::swap(memories_[name], memory);
    std::swap(env_, thread.env);
    std::swap(flights_, thread.flights);
  };
  exchange();
  id_ = thread.id, path_ = thread.path;
  f();
  exchange();
}

void Machine::InEach(ThreadGroups& groups, const std::function<void()>& f) {
  for (int64_t i : Order(static_cast<int64_t>(groups.threads().size()))) In(groups.threads()[i], f);
}

void Machine::DeclareInEach(ThreadGroups& groups, const Buffer& buffer) {
  for (VirtualThread& thread : groups.threads()) {
    thread.own.erase(buffer->name);  // what its group had for it
    In(thread, [&] { Declare(buffer); });
    thread.own[buffer->name] = std::move(memories_[buffer->name]);
  }
}

int64_t Machine::Uniform(ThreadGroups& groups, const Expr& e, const std::string& what) {
  std::optional<int64_t> value;
  const VirtualThread* first = nullptr;
  for (VirtualThread& thread : groups.threads()) {
    int64_t own = 0;
    In(thread, [&] { own = EvalInt(e); });
    if (ok() && value && own != *value) {
      Fail("barrier divergence: " + what + " is " + std::to_string(*value) + " in thread " + first->id.Text() +
           " and " + std::to_string(own) + " in thread " + thread.id.Text());
    }
    if (!value) value = own, first = &thread;
  }
  return value.value_or(0);
}

}  // namespace autotune::interp
