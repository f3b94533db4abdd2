// Loops over threads that contain barriers or products of tensor cores. Such a loop is cut into pieces without barriers
// and products; all threads run one piece, then the next one. Conditions that decide whether a barrier or a product is
// reached must be the same for all threads.
#include <algorithm>
#include <tuple>

#include "ir/interp_machine.h"
#include "ir/interp_scalar.h"
#include "ir/mma.h"
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
  if (!HasMeeting(s)) return InEach(groups, [&] { Exec(s); });
  if (IsMma(s)) return Mma(*s.As<Store>(), groups);
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

void Machine::Mma(const Store& n, ThreadGroups& groups) {
  std::vector<VirtualThread*> threads;
  for (VirtualThread& thread : groups.threads()) threads.push_back(&thread);
  auto place = [](const VirtualThread* t) {
    const auto& at = t->id.at;
    return std::tuple(at[5], at[4], at[3]);  // along threadIdx.z, .y, .x
  };
  std::sort(threads.begin(), threads.end(),
            [&](const VirtualThread* a, const VirtualThread* b) { return place(a) < place(b); });
  if (threads.size() % kWarpLanes != 0) return Fail("a product of tensor cores needs whole warps of threads");
  for (size_t first = 0; first < threads.size() && ok(); first += kWarpLanes)
    MmaOfWarp(n, std::span(threads).subspan(first, kWarpLanes));
}

void Machine::MmaOfWarp(const Store& n, std::span<VirtualThread* const> warp) {
  const std::vector<Expr>& args = n.value.As<Call>()->args;
  const MmaType* known = MmaTypeOf(args[1].dtype().Element());
  if (!known) return Fail("tensor cores do not multiply " + args[1].dtype().Text());
  const MmaType& type = *known;
  double c[kMmaRows][kMmaColumns], a[kMmaRows][2 * kMmaRows], b[2 * kMmaRows][kMmaColumns];
  std::vector<Writes> writes(warp.size());
  for (size_t lane = 0; lane < warp.size(); ++lane) {
    const size_t group = lane / kMmaQuad, place = lane % kMmaQuad;
    In(*warp[lane], [&] {
      for (int e = 0; e < kMmaSums && ok(); ++e) {
        const MmaPlace at = PlaceInC(e);
        c[group + kMmaGroups * at.half][2 * place + at.pair] = EvalLane(args[0], e).f;
        Memory* memory = Resolve(n.buffer);
        if (memory) writes[lane].emplace_back(Locate(*memory, n.indices, e, "write"), Scalar{});
      }
      for (int e = 0; e < type.a_elements() && ok(); ++e) {
        const MmaPlace at = PlaceInA(type, e);
        a[group + kMmaGroups * at.half][at.k + type.pack * place] = EvalLane(args[1], e).f;
      }
      for (int e = 0; e < type.b_elements() && ok(); ++e)
        b[PlaceInB(type, e).k + type.pack * place][group] = EvalLane(args[2], e).f;
    });
  }
  if (!ok()) return;
  for (int row = 0; row < kMmaRows; ++row) {
    for (int column = 0; column < kMmaColumns; ++column) {
      for (int k = 0; k < type.k(); ++k)
        c[row][column] = FusedMultiplyAdd(a[row][k], b[k][column], c[row][column], DType::Float(32));
    }
  }
  for (size_t lane = 0; lane < warp.size(); ++lane) {
    for (int e = 0; e < kMmaSums; ++e) {
      const MmaPlace at = PlaceInC(e);
      writes[lane][e].second.f = c[lane / kMmaQuad + kMmaGroups * at.half][2 * (lane % kMmaQuad) + at.pair];
    }
    In(*warp[lane], [&] { Write(*memories_.at(n.buffer->name), writes[lane]); });
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
    thread.own.erase(buffer->name);  // the copy that it inherited when it was forked
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
