#include "ir/interp.h"

#include <numeric>

#include "ir/dot.h"
#include "ir/int_math.h"
#include "ir/interp_machine.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "ir/watch.h"

namespace autotune {
namespace interp {

Machine::Machine(const PrimFunc& f, const InterpOptions& options)
    : f_(f), options_(options), rng_(options.order_seed), has_threads_(HasThreads(f.body)) {}

Status Machine::Run(std::vector<InterpArray>& args) {
  if (args.size() != f_.params.size()) {
    return Err(f_.name, " takes ", f_.params.size(), " arguments, not ", args.size());
  }
  for (size_t i = 0; i < args.size(); ++i) BindShape(f_.params[i].buffer, args[i]);
  for (size_t i = 0; i < args.size() && ok(); ++i) Import(f_.params[i], args[i]);
  for (const Buffer& buffer : f_.allocs) Declare(buffer);
  if (ok()) Exec(f_.body);
  if (!ok()) return Error(error_);
  for (size_t i = 0; i < args.size(); ++i) {
    if (f_.params[i].role == ParamRole::kOutput) Export(f_.params[i], args[i]);
  }
  return {};
}

void Machine::Fail(const std::string& message) {
  if (!ok()) return;
  error_ = message;
  if (!block_.empty()) error_ += ", in block " + block_.str();
  std::string values;
  for (const auto& [name, lanes] : env_) {
    if (lanes.size() != 1) continue;
    values += (values.empty() ? " (" : ", ") + name.str() + " = " + std::to_string(lanes[0].i);
  }
  if (!values.empty()) error_ += values + ")";
}

const std::vector<Scalar>* Machine::Find(const Name& var) const {
  for (size_t i = env_.size(); i-- > 0;) {
    if (env_[i].first == var) return &env_[i].second;
  }
  return nullptr;
}

Memory* Machine::Resolve(const Buffer& buffer) {
  auto it = memories_.find(buffer->name);
  if (it == memories_.end() || !it->second) {
    Fail("buffer " + buffer->name.str() + " is not declared");
    return nullptr;
  }
  if (it->second->buffer->dtype != buffer->dtype) {
    Fail("buffer " + buffer->name.str() + " is declared with another dtype");
    return nullptr;
  }
  return it->second.get();
}

int64_t Machine::Locate(const Memory& memory, const std::vector<Expr>& indices, int lane, const char* what) {
  bool flat = indices.size() == 1 && memory.shape.size() != 1;
  if (!flat && indices.size() != memory.shape.size()) {
    Fail(std::to_string(indices.size()) + " indices for buffer " + memory.buffer->name.str());
    return -1;
  }
  int64_t at = 0;
  bool inside = true;
  std::string text;
  for (size_t d = 0; d < indices.size(); ++d) {
    int64_t index = EvalLane(indices[d], indices[d].dtype().lanes == 1 ? 0 : lane).i;
    if (!ok()) return -1;
    int64_t extent = flat ? static_cast<int64_t>(memory.data.size()) : memory.shape[d];
    inside &= index >= 0 && index < extent;
    at += inside ? index * (flat ? 1 : memory.strides[d]) : 0;
    if (!inside)
      text += " index " + std::to_string(d) + " is " + std::to_string(index) + " of " + std::to_string(extent);
    if (!inside) break;
  }
  if (inside) return at;
  Fail(std::string(what) + " of " + memory.buffer->name.str() + " out of bounds:" + text);
  return -1;
}

void Machine::CheckRace(int earlier, const Memory& memory, int64_t at, const char* what) {
  if (earlier < 0) return;
  const ThreadId &a = paths_.IdOf(earlier), &b = paths_.IdOf(path_);
  std::string who = a == b ? "iterations of a parallel loop" : "threads " + a.Text() + " and " + b.Text();
  Fail("race: " + who + " touch " + memory.ElementText(at) + ", the later one to " + what + " it");
}

// Reports an access to memory that belongs to another block of threads or to another thread.
void Machine::CheckOwner(Memory& memory, int64_t at) {
  if (memory.owners.empty()) return;
  int& owner = memory.owners[at];
  if (owner < 0) owner = path_;
  const ThreadId &a = paths_.IdOf(owner), &b = paths_.IdOf(path_);
  bool shared = memory.buffer->scope == Scope::kShared;
  if (shared ? SameBlock(a, b) : SameThread(a, b)) return;
  Fail("threads " + a.Text() + " and " + b.Text() + " touch " + memory.ElementText(at) + ", which is " +
       (shared ? "shared by one block only" : "one thread's own"));
}

// --- expressions: one lane at a time
Scalar Machine::EvalLane(const Expr& e, int lane) {
  if (!ok()) return {};
  DType dtype = e.dtype();
  std::string undefined;
  Scalar value = e.Visit(Overloaded{
      [&](const IntImm& n) {
        return Scalar{n.value, 0};
      },
      [&](const FloatImm& n) {
        return Scalar{0, n.value};
      },
      [&](const Var& n) {
        const std::vector<Scalar>* lanes = Find(n.name);
        if (!lanes) Fail("variable " + n.name.str() + " has no value");
        return lanes ? (*lanes)[std::min<size_t>(lane, lanes->size() - 1)] : Scalar{};
      },
      [&](const Unary& n) { return interp::ApplyUnary(n.op, dtype.Element(), EvalLane(n.a, lane)); },
      [&](const Binary& n) {
        Scalar a = EvalLane(n.a, lane), b = EvalLane(n.b, lane);
        return ok() ? interp::ApplyBinary(n.op, n.a.dtype().Element(), a, b, undefined) : a;
      },
      [&](const Cast& n) {
        Scalar a = EvalLane(n.a, lane);
        return interp::ApplyCast(n.a.dtype().Element(), dtype.Element(), a);
      },
      [&](const Select& n) {
        bool chosen = EvalLane(n.condition, n.condition.dtype().lanes == 1 ? 0 : lane).i;
        return EvalLane(chosen ? n.a : n.b, lane);
      },
      [&](const Load& n) { return EvalLoad(n, lane); },
      [&](const Call& n) {
        if (n.op == Op::kDot) return EvalDot(n, lane);
        Scalar args[3];
        for (size_t i = 0; i < n.args.size() && i < 3; ++i) args[i] = EvalLane(n.args[i], lane);
        if (!ok()) return Scalar{};
        return interp::ApplyCall(n.op, n.args[0].dtype().Element(), dtype.Element(), args, undefined);
      },
      [&](const Ramp& n) {
        Scalar stride = EvalLane(n.stride, 0), base = EvalLane(n.base, 0);
        Scalar step = interp::ApplyBinary(BinaryOp::kMul, dtype.Element(), stride, Scalar{lane, 0}, undefined);
        return interp::ApplyBinary(BinaryOp::kAdd, dtype.Element(), base, step, undefined);
      },
      [&](const Broadcast& n) { return EvalLane(n.a, 0); },
  });
  if (!undefined.empty()) Fail(undefined);
  return value;
}

Scalar Machine::EvalDot(const Call& n, int lane) {
  const Expr &a = n.args[1], &b = n.args[2];
  const int group = DotGroup(a.dtype().Element());
  const bool floats = a.dtype().IsFloat();
  Scalar sum = EvalLane(n.args[0], lane);
  for (int k = 0; k < group && ok(); ++k) {
    const Scalar x = EvalLane(a, a.dtype().lanes == group ? k : group * lane + k), y = EvalLane(b, group * lane + k);
    if (floats) {
      sum.f = RoundFloat(sum.f + x.f * y.f, DType::Float(32));
    } else {
      sum.i += x.i * y.i;
    }
  }
  return floats ? sum : Scalar{WrapTo(static_cast<uint64_t>(sum.i), DType::Int(32)), 0};
}

Scalar Machine::EvalLoad(const Load& n, int lane) {
  Memory* memory = Resolve(n.buffer);
  int64_t at = memory ? Locate(*memory, n.indices, lane, "read") : -1;
  if (at < 0) return {};
  Touch(*memory, at, false);
  if (reading_) reading_->emplace_back(memories_.at(n.buffer->name), at);
  if (!memory->written[at])
    Fail("read of element " + std::to_string(at) + " of " + n.buffer->name.str() + ", never written");
  CheckRace(memory->Read(at, path_, paths_), *memory, at, "read");
  CheckOwner(*memory, at);
  return memory->data[at];
}

// --- statements
void Machine::Exec(const Stmt& s) {
  if (!ok() || !s) return;
  s.Visit(Overloaded{
      [&](const Store& n) { ExecStore(n); },
      [&](const Evaluate& n) {
        const Call* call = n.value.As<Call>();
        if (IsBarrier(s)) Fail("a barrier outside of loops over threads");
        if (call && call->op == Op::kAsyncCommit) Commit();
        if (call && call->op == Op::kAsyncWait) Wait(EvalInt(call->args[0]));
        // Other calls, such as prefetches, are hints.
      },
      [&](const Seq& n) {
        for (const Stmt& child : n.stmts) Exec(child);
      },
      [&](const If& n) {
        bool condition = EvalInt(n.condition);
        Exec(condition ? n.then_body : n.else_body);
      },
      [&](const For& n) { ExecFor(n); },
      [&](const Block& n) { ExecBlock(n); },
      [&](const Alloc& n) {
        std::shared_ptr<Memory> outer = std::move(memories_[n.buffer->name]);
        Declare(n.buffer);
        Exec(n.body);
        if (outer) {
          memories_[n.buffer->name] = std::move(outer);
        } else {
          memories_.erase(n.buffer->name);
        }
      },
      [&](const Let& n) {
        std::vector<Scalar> lanes;
        for (int lane = 0; lane < n.value.dtype().lanes; ++lane) lanes.push_back(EvalLane(n.value, lane));
        env_.emplace_back(n.var, std::move(lanes));
        Exec(n.body);
        env_.pop_back();
      },
  });
}

void Machine::ExecStore(const Store& n) {
  if (options_.stores_left && --*options_.stores_left < 0) return Fail("more stores than allowed");
  const Call* call = n.value.As<Call>();
  if (call && call->op == Op::kAsync) return Issue(n);
  if (call && call->op == Op::kMma) return Fail("a product of tensor cores outside of loops over threads");
  Memory* memory = Resolve(n.buffer);
  if (!memory) return;
  int lanes = n.value.dtype().lanes;
  Writes writes;
  for (int lane = 0; lane < lanes && ok(); ++lane) {
    int64_t at = Locate(*memory, n.indices, lane, "write");
    writes.emplace_back(at, EvalLane(n.value, lane));
  }
  if (ok()) Write(*memory, writes);
}

void Machine::Write(Memory& memory, const Writes& writes) {
  for (const auto& [at, value] : writes) {
    Touch(memory, at, true);
    CheckRace(memory.Write(at, path_, paths_), memory, at, "write");
    CheckOwner(memory, at);
    memory.data[at] = value;
    memory.written[at] = true;
  }
}

void Machine::ExecFor(const For& n) {
  int64_t extent = EvalInt(n.extent);
  if (!ok()) return;
  if (n.kind != LoopKind::kParallel && !IsBound(n.kind)) {
    Push(n.var, {});
    size_t slot = env_.size() - 1;
    for (int64_t i = 0; i < extent && ok(); ++i) {
      env_[slot].second[0].i = i;
      Exec(n.body);
    }
    if (ok()) env_.pop_back();
    return;
  }
  if (IsThreadAxis(n.kind) && HasMeeting(n.body)) return ExecTogether(n);
  int64_t instance = ++instances_;
  int outer = path_;
  ThreadId outer_id = id_;
  Push(n.var, {});
  size_t slot = env_.size() - 1;
  std::vector<Buffer> own = OwnAllocs(n);
  for (int64_t i : Order(extent)) {
    if (!ok()) return;
    for (const Buffer& buffer : own) Declare(buffer);
    if (IsBound(n.kind)) id_[n.kind] = i;
    if (options_.detect_races) {
      path_ = IsBound(n.kind) ? paths_.Enter(outer, instance, i, id_) : paths_.Enter(outer, instance, i);
    }
    env_[slot].second[0].i = i;
    Exec(n.body);
    if (IsThreadAxis(n.kind)) CheckAwaited(flights_, id_);
  }
  path_ = outer;
  id_ = outer_id;
  if (ok()) env_.pop_back();
}

// Returns the order in which to run independent iterations: ascending, or shuffled if there is a seed.
std::vector<int64_t> Machine::Order(int64_t extent) {
  std::vector<int64_t> order(std::max<int64_t>(extent, 0));
  std::iota(order.begin(), order.end(), 0);
  if (options_.order_seed != 0) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.Below(static_cast<int64_t>(i))]);
  }
  return order;
}

// Returns the allocs of which each iteration of this loop has its own copy: only this loop uses them, and their scope
// is private to an iteration.
std::vector<Buffer> Machine::OwnAllocs(const For& n) {
  auto uses = [](const Stmt& s) {
    std::unordered_map<Name, int> count;
    auto on_stmt = [&](const Stmt& x) {
      if (const Store* store = x.As<Store>()) ++count[store->buffer->name];
      return true;
    };
    auto on_expr = [&](const Expr& e) {
      if (const Load* load = e.As<Load>()) ++count[load->buffer->name];
      return true;
    };
    Walk(s, on_stmt, on_expr);
    return count;
  };
  auto inside = uses(n.body), all = uses(f_.body);
  std::vector<Buffer> own;
  for (const Buffer& buffer : f_.allocs) {
    bool visible = IsBound(n.kind) && buffer->scope == Scope::kGlobal;
    visible |= IsThreadAxis(n.kind) && buffer->scope == Scope::kShared;
    if (visible) continue;
    if (inside[buffer->name] > 0 && inside[buffer->name] == all[buffer->name]) own.push_back(buffer);
  }
  return own;
}

void Machine::ExecBlock(const Block& n) {
  std::vector<Scalar> values;
  for (const Iter& iter : n.iters) values.push_back(EvalLane(iter.binding, 0));
  if (!ok()) return;
  Name outer = std::exchange(block_, n.name);
  size_t mark = env_.size();
  bool first = true;
  for (size_t i = 0; i < n.iters.size(); ++i) {
    Push(n.iters[i].var, values[i]);
    first &= n.iters[i].kind == IterKind::kSpatial || values[i].i == 0;
  }
  if (!n.predicate || EvalInt(n.predicate)) {
    for (const Iter& iter : n.iters) {
      int64_t value = (*Find(iter.var))[0].i, extent = EvalInt(iter.extent);
      if (value < 0 || value >= extent) {
        Fail("iterator " + iter.var.str() + " = " + std::to_string(value) + " leaves its extent " +
             std::to_string(extent));
      }
    }
    if (first) Exec(n.init);
    Exec(n.body);
  }
  if (!ok()) return;
  env_.resize(mark);
  block_ = outer;
}

}  // namespace interp

Status Interpret(const PrimFunc& f, std::vector<InterpArray>& args, const InterpOptions& options) {
  ShowProgram(f, [] { return std::string("before it is interpreted"); });
  return interp::Machine(f, options).Run(args);
}

}  // namespace autotune
