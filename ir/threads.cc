#include "ir/threads.h"

#include <cmath>
#include <map>
#include <unordered_map>

#include "ir/mma.h"
#include "ir/visit.h"

namespace autotune {
namespace {

class Checker {
 public:
  explicit Checker(const PrimFunc& f) : f_(f), any_(HasThreads(f.body)) {}

  Status Run() {
    for (const Param& param : f_.params) {
      Scope scope = param.buffer->scope;
      if (scope == Scope::kShared || scope == Scope::kLocal) {
        return Err("parameter '", param.buffer->name, "' has scope ", ToText(scope));
      }
    }
    Check(f_.body);
    return error_.empty() ? Status() : Status(Error(error_));
  }

 private:
  bool ok() const { return error_.empty(); }
  template <class... Parts>
  void Fail(const Parts&... parts) {
    if (ok()) error_ = Err(parts...).message;
  }

  void Check(const Stmt& s) {
    if (!ok() || !s) return;
    if (const For* loop = s.As<For>()) return CheckLoop(*loop);
    if (IsBarrier(s)) return CheckMeeting("a barrier");
    if (IsMma(s)) CheckMma();
    if (const Store* store = s.As<Store>()) CheckUse(store->buffer);
    if (const Alloc* alloc = s.As<Alloc>()) CheckDeclared(alloc->buffer);
    bool block = s.As<Block>();
    in_block_ |= block;
    MapChildren(
        s, [&](const Stmt& child) { return Check(child), child; },
        [&](const Expr& e) {
          Walk(e, [&](const Expr& x) {
            if (const Load* load = x.As<Load>()) CheckUse(load->buffer);
            return ok();
          });
          return e;
        });
    if (block) in_block_ = false;
  }

  void CheckLoop(const For& loop) {
    bool starts = IsBound(loop.kind) && kernel_ == nullptr;
    if (starts) kernel_ = &loop, kernel_blocks_ = IsBlockAxis(loop.kind), extents_.clear(), ++kernels_;
    if (starts) CollectAxes(loop);
    if (IsBound(loop.kind)) CheckBound(loop);
    if (kernel_ && loop.kind == LoopKind::kParallel) {
      Fail("loop '", loop.var, "' is parallel inside loop '", kernel_->var, "', which is ", ToText(kernel_->kind));
    }
    loops_.push_back(&loop);
    Check(loop.body);
    loops_.pop_back();
    if (starts) kernel_ = nullptr;
  }

  // Records the extent of each axis, as stated by the first loop over it in the kernel.
  void CollectAxes(const For& kernel) {
    auto add = [&](const For& loop) {
      if (IsBound(loop.kind)) extents_.emplace(loop.kind, &loop);
    };
    add(kernel);
    Walk(kernel.body, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) add(*loop);
      return true;
    });
  }

  void CheckBound(const For& loop) {
    std::string_view axis = ToText(loop.kind);
    const int64_t* extent = AsInt(loop.extent);
    if (!extent || *extent < 1)
      return Fail("loop '", loop.var, "' is ", axis, ", but its extent is not a positive constant");
    for (const For* outer : loops_) {
      if (outer->kind == LoopKind::kParallel || outer->kind == LoopKind::kVectorized) {
        return Fail("loop '", loop.var, "' is ", axis, " inside loop '", outer->var, "', which is ",
                    ToText(outer->kind));
      }
      if (outer->kind == loop.kind) {
        return Fail("loop '", loop.var, "' is ", axis, " inside loop '", outer->var, "', which is ", axis, " too");
      }
    }
    if (IsBlockAxis(loop.kind) && kernel_ != &loop) {
      const For* outer = loops_.back();
      if (!IsBlockAxis(outer->kind) || !outer->body.As<For>()) {
        return Fail("loop '", loop.var, "' is ", axis, ", but not directly inside loops over blocks in the kernel of '",
                    kernel_->var, "'");
      }
    }
    const For* first = extents_.at(loop.kind);
    if (!IsConst(first->extent, *extent)) {
      const int64_t* other = AsInt(first->extent);
      Fail("loop '", loop.var, "' is ", axis, " of extent ", *extent, ", but loop '", first->var,
           "' of its kernel has ", other ? std::to_string(*other) : std::string("an extent that is not constant"));
    }
  }

  void CheckMma() {
    CheckMeeting("a product of tensor cores");
    int64_t threads = 1;
    for (const auto& [axis, loop] : extents_) threads *= IsThreadAxis(axis) ? *AsInt(loop->extent) : 1;
    if (threads % kWarpLanes != 0)
      Fail("a product of tensor cores by ", threads, " threads, which are not whole warps");
  }

  // Checks the place of a statement that threads run together, such as a barrier.
  void CheckMeeting(std::string_view what) {
    if (!kernel_) return Fail(what, " outside of loops over threads");
    if (in_block_) return Fail(what, " in a block");
    if (loops_.back()->kind == LoopKind::kVectorized) return Fail(what, " in a vectorized loop");
    bool any = false;
    for (const auto& [axis, loop] : extents_) {
      if (!IsThreadAxis(axis)) continue;
      any = true;
      bool inside = false;
      for (const For* outer : loops_) inside |= outer->kind == axis;
      if (!inside) Fail(what, " outside of the loops over ", ToText(axis), ", which only some threads reach");
    }
    if (!any) Fail(what, " outside of loops over threads");
  }

  void CheckDeclared(const Buffer& buffer) {
    bool shared = buffer->scope == Scope::kShared;
    if (!any_ || (!shared && buffer->scope != Scope::kLocal)) return;
    bool in_threads = false;
    for (const For* outer : loops_) in_threads |= IsThreadAxis(outer->kind);
    if (shared && (!kernel_ || !kernel_blocks_ || in_threads)) {
      Fail("the shared buffer '", buffer->name, "' is not declared between loops over blocks and loops over threads");
    }
    if (!shared && !in_threads) Fail("the local buffer '", buffer->name, "' is declared outside of loops over threads");
    declared_inside_.emplace(buffer->name, true);
  }

  void CheckUse(const Buffer& buffer) {
    if (!any_ || buffer->scope == Scope::kGlobal || declared_inside_.contains(buffer->name)) return;
    bool shared = buffer->scope == Scope::kShared, registers = buffer->scope == Scope::kRegister;
    std::string_view scope = ToText(buffer->scope);
    if (!kernel_ && !registers) return Fail("buffer '", buffer->name, "' is ", scope, " and used outside of kernels");
    if (shared && !kernel_blocks_) {
      return Fail("buffer '", buffer->name, "' is shared in a kernel without a loop over blocks around '", kernel_->var,
                  "'");
    }
    int where = kernel_ ? kernels_ : 0;
    auto [it, first] = kernel_of_.emplace(buffer->name, where);
    if (first || it->second == where) return;
    if (it->second && where) return Fail("buffer '", buffer->name, "' is ", scope, " and used in two kernels");
    Fail("buffer '", buffer->name, "' is ", scope, " and used in a kernel and outside");
  }

  const PrimFunc& f_;
  const bool any_;
  std::string error_;
  std::vector<const For*> loops_;
  const For* kernel_ = nullptr;  // around the statement being checked
  bool kernel_blocks_ = false, in_block_ = false;
  int kernels_ = 0;
  std::map<LoopKind, const For*> extents_;
  std::unordered_map<Name, int> kernel_of_;  // number of the kernel that uses a buffer; 0: code outside of kernels
  std::unordered_map<Name, bool> declared_inside_;
};

}  // namespace

bool HasThreads(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= x.As<For>() && IsBound(x.As<For>()->kind);
    return !found && !x.As<Block>();
  });
  return found;
}

bool IsBarrier(const Stmt& s) {
  const Evaluate* evaluate = s.As<Evaluate>();
  const Call* call = evaluate ? evaluate->value.As<Call>() : nullptr;
  return call && call->op == Op::kBarrier;
}

bool IsMma(const Stmt& s) {
  const Store* store = s.As<Store>();
  const Call* call = store ? store->value.As<Call>() : nullptr;
  return call && call->op == Op::kMma;
}

bool HasBarrier(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= IsBarrier(x);
    return !found;
  });
  return found;
}

bool HasMeeting(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= IsBarrier(x) || IsMma(x);
    return !found;
  });
  return found;
}

Stmt MakeAsyncCommit() { return MakeStmt(Evaluate{MakeCall(Op::kAsyncCommit, {})}); }
Stmt MakeAsyncWait(int64_t groups) { return MakeStmt(Evaluate{MakeCall(Op::kAsyncWait, {Expr(groups)})}); }

bool IsAsyncStore(const Stmt& s) {
  const Store* store = s.As<Store>();
  const Call* call = store ? store->value.As<Call>() : nullptr;
  return call && call->op == Op::kAsync;
}

const Load* CopiedLoad(const Expr& value) {
  const Select* select = value.As<Select>();
  const Load* load = (select ? select->a : value).As<Load>();
  if (!load || load->buffer->scope != Scope::kGlobal) return nullptr;
  if (!select) return load;
  const Broadcast* broadcast = select->b.As<Broadcast>();
  const Expr& other = broadcast ? broadcast->a : select->b;
  const FloatImm* zero = other.As<FloatImm>();
  const bool is_zero = IsConst(other, 0) || (zero && zero->value == 0 && !std::signbit(zero->value));
  return is_zero ? load : nullptr;
}

const Expr& AsyncValue(const Store& s) {
  const Call* call = s.value.As<Call>();
  return call && call->op == Op::kAsync ? call->args[0] : s.value;
}

Stmt MakeBarrier() { return MakeStmt(Evaluate{MakeCall(Op::kBarrier, {})}); }

Status CheckThreads(const PrimFunc& f) { return Checker(f).Run(); }

}  // namespace autotune
