#include "ir/verify.h"

#include <bit>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "ir/dot.h"
#include "ir/float_math.h"
#include "ir/int_math.h"
#include "ir/mma.h"
#include "ir/reduction.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "ir/visit.h"

namespace autotune {
namespace {

class Verifier {
 public:
  Verifier(const PrimFunc& f, Dialect dialect) : f_(f), dialect_(dialect) {}

  Status Run() {
    if (f_.name.empty()) Fail("the function has no name");
    if (!f_.body) Fail("the function has no body");
    for (const Param& param : f_.params) {
      if (!param.buffer) Fail("a parameter without a buffer");
      if (!ok()) break;
      for (const Expr& extent : param.buffer->shape) {
        const Var* var = extent ? extent.As<Var>() : nullptr;
        if (var && bound_.insert(var->name).second) scope_.emplace(var->name, extent.dtype());
      }
    }
    symbols_ = scope_;
    for (const Param& param : f_.params) {
      if (!ok()) break;
      Declare(param.buffer);
      if (param.role != ParamRole::kOutput) read_only_.insert(param.buffer->name);
    }
    for (const Buffer& buffer : f_.allocs) {
      if (!buffer) Fail("an allocation without a buffer");
      if (ok()) Declare(buffer);
    }
    if (!ok()) return Error(error_);
    if (dialect_ == Dialect::kEither) {
      dialect_ = Dialect::kLowered;
      Walk(f_.body, [&](const Stmt& s) {
        if (s.As<Block>()) dialect_ = Dialect::kSchedulable;
        return true;
      });
    }
    Check(f_.body);
    if (!ok()) return Error(error_);
    if (Status threads = threads_ ? CheckThreads(f_) : Status(); !threads.ok()) Fail(threads.error().message);
    return ok() ? Status() : Status(Error(error_));
  }

 private:
  bool ok() const { return error_.empty(); }
  bool Schedulable() const { return dialect_ == Dialect::kSchedulable; }
  void Fail(const std::string& message) {
    if (!ok()) return;
    error_ = "malformed IR in " + f_.name.str() + ": " + message;
    if (!block_.empty()) error_ += ", in block " + block_.str();
  }
  void FailAt(const Expr& e, const std::string& message) { Fail(message + ": " + ToText(e)); }

  void Declare(const Buffer& buffer) {
    const std::string& name = buffer->name.str();
    if (name.empty()) Fail("a buffer has no name");
    if (buffers_.contains(buffer->name) || !buffers_bound_.insert(buffer->name).second) {
      Fail("buffer " + name + " is declared twice");
    }
    for (const Expr& extent : buffer->shape) CheckExtent(extent, "the shape of " + name);
    for (const Expr& stride : buffer->strides) CheckExtent(stride, "the strides of " + name);
    if (!buffer->strides.empty() && buffer->strides.size() != buffer->shape.size()) {
      Fail("buffer " + name + " needs as many strides as dimensions, or none");
    }
    if (buffer->alignment < 1 || !std::has_single_bit(static_cast<uint64_t>(buffer->alignment))) {
      Fail("the alignment of " + name + " is not a power of two");
    }
    CheckDimAlign(*buffer.get());
    if (buffer->dtype.lanes != 1) Fail("buffer " + name + " has a vector type");
    threads_ |= buffer->scope == autotune::Scope::kShared || buffer->scope == autotune::Scope::kLocal;
    buffers_[buffer->name] = buffer;
  }

  void CheckDimAlign(const BufferCell& buffer) {
    if (buffer.dim_align.empty()) return;
    const std::string name = buffer.name.str();
    if (!buffer.strides.empty()) Fail("buffer " + name + " has strides of its own, which cannot be aligned");
    if (buffer.scope == autotune::Scope::kRegister)
      Fail("buffer " + name + " lies in registers, which have no strides");
    int64_t last = -1;
    for (const DimAlign& align : buffer.dim_align) {
      if (align.dim <= last) Fail("the aligned dimensions of " + name + " are not in order, each once");
      if (align.dim >= static_cast<int64_t>(buffer.shape.size()) - 1) {
        Fail("dimension " + std::to_string(align.dim) + " of " + name +
             " cannot be aligned: only dimensions before the last can");
      }
      if (align.factor < 1 || align.factor > DimAlign::kMaxFactor || align.offset < 0 || align.offset >= align.factor) {
        Fail("the strides of " + name + " are aligned with an offset or factor out of range");
      }
      last = align.dim;
    }
  }

  void Bind(const Name& var, DType dtype) {
    if (var.empty()) Fail("a variable has no name");
    if (!bound_.insert(var).second) Fail("variable " + var.str() + " is bound twice");
    scope_[var] = dtype;
  }

  void CheckExtent(const Expr& e, const std::string& what) {
    if (!e) return Fail(what + " is absent");
    if (!e.dtype().IsInt() || e.dtype().lanes != 1) return FailAt(e, what + " is " + e.dtype().Text());
    Check(e);
  }

  // --- expressions
  void Check(const Expr& e) {
    if (!ok()) return;
    if (!e) return Fail("an expression is absent");
    DType dtype = e.dtype();
    if (Schedulable() && dtype.lanes != 1) return FailAt(e, "a vector before vectorization");
    e.Visit(Overloaded{
        [&](const IntImm& n) {
          if (dtype.IsFloat() || dtype.lanes != 1 || WrapTo(static_cast<uint64_t>(n.value), dtype) != n.value) {
            FailAt(e, "not a value of " + dtype.Text());
          }
        },
        [&](const FloatImm& n) {
          bool fits = dtype.IsFloat() && dtype.lanes == 1;
          if (!fits || !(std::isnan(n.value) || RoundFloat(n.value, dtype) == n.value)) {
            FailAt(e, "not a value of " + dtype.Text());
          }
        },
        [&](const Var& n) {
          auto it = scope_.find(n.name);
          if (it == scope_.end()) return Fail("variable " + n.name.str() + " is not in scope");
          if (it->second != dtype) Fail("variable " + n.name.str() + " is bound as " + it->second.Text());
        },
        [&](const Unary& n) {
          Check(n.a);
          if (ok() && (n.a.dtype() != dtype || dtype.IsBool() != (n.op == UnaryOp::kNot))) FailAt(e, "dtypes differ");
        },
        [&](const Binary& n) { CheckBinary(e, n); },
        [&](const Cast& n) {
          Check(n.a);
          if (ok() && n.a.dtype().lanes != dtype.lanes) FailAt(e, "a cast changes the number of lanes");
        },
        [&](const Select& n) {
          Check(n.condition), Check(n.a), Check(n.b);
          if (!ok()) return;
          DType c = n.condition.dtype();
          bool fits = c.IsBool() && (c.lanes == 1 || c.lanes == dtype.lanes);
          if (!fits || n.a.dtype() != dtype || n.b.dtype() != dtype) FailAt(e, "dtypes differ");
        },
        [&](const Load& n) {
          int lanes = CheckAccess(n.buffer, n.indices);
          if (ok() && dtype != n.buffer->dtype.WithLanes(lanes)) FailAt(e, "a load of another dtype than its buffer");
        },
        [&](const Call& n) { CheckCall(e, n); },
        [&](const Ramp& n) {
          Check(n.base), Check(n.stride);
          if (ok() && (n.base.dtype() != dtype.Element() || n.stride.dtype() != dtype.Element() || dtype.lanes < 2)) {
            FailAt(e, "dtypes differ");
          }
        },
        [&](const Broadcast& n) {
          Check(n.a);
          if (ok() && (n.a.dtype() != dtype.Element() || dtype.lanes < 2)) FailAt(e, "dtypes differ");
        },
    });
  }

  void CheckBinary(const Expr& e, const Binary& n) {
    Check(n.a), Check(n.b);
    if (!ok()) return;
    DType dtype = n.a.dtype();
    DType result = IsComparison(n.op) ? DType::Bool().WithLanes(dtype.lanes) : dtype;
    if (n.b.dtype() != dtype || e.dtype() != result) return FailAt(e, "dtypes differ");
    if (!HasOperator(dtype, n.op)) FailAt(e, "an operator that " + dtype.Text() + " does not have");
  }

  void CheckCall(const Expr& e, const Call& n) {
    const OpRow& row = Row(n.op);
    if (static_cast<int>(n.args.size()) != row.arity) return FailAt(e, "a wrong number of arguments");
    if (IsPrefetch(n.op) && !in_evaluate_) return FailAt(e, "a prefetch has no value");
    if (n.op == Op::kBarrier) {
      if (!in_evaluate_) return FailAt(e, "a barrier has no value");
      if (Schedulable()) return FailAt(e, "a barrier before lowering");
      threads_ = true;
      return;
    }
    if (IsAsyncGroup(n.op)) {
      if (!in_evaluate_) return FailAt(e, "a group of asynchronous stores has no value");
      if (Schedulable()) return FailAt(e, "asynchronous stores before lowering");
      const int64_t* left = n.args.empty() ? nullptr : AsInt(n.args[0]);
      if (n.op == Op::kAsyncWait && (!left || *left < 0))
        return FailAt(e, "async_wait takes a constant number of groups, at least 0");
      return;
    }
    if (n.op == Op::kAsync) {
      if (e.get() != async_.get()) return FailAt(e, "only the whole value of a store to shared memory is asynchronous");
      if (Schedulable()) return FailAt(e, "an asynchronous store before lowering");
    }
    for (const Expr& arg : n.args) Check(arg);
    if (!ok()) return;
    if (n.op == Op::kMma) return CheckMma(e, n);
    if (n.op == Op::kDot) return CheckDot(e, n);
    DType a = n.args[0].dtype(), dtype = e.dtype();
    for (const Expr& arg : n.args) {
      if (arg.dtype() != a) return FailAt(e, "arguments of different dtypes");
    }
    bool same = row.type == OpType::kSameAsFirst && dtype == a;
    bool truth = row.type == OpType::kBool && dtype == DType::Bool().WithLanes(a.lanes);
    bool given = row.type == OpType::kGiven && dtype.bits == a.bits && dtype.lanes == a.lanes;
    if (!same && !truth && !given) return FailAt(e, "a result of the wrong dtype");
    if (n.op != Op::kAbs && n.op != Op::kReinterpret && n.op != Op::kAsync && !IsPrefetch(n.op) && !a.IsFloat()) {
      FailAt(e, std::string(row.name) + " is for floats");
    }
    if (n.op == Op::kTf32 && a.Element() != DType::Float(32)) FailAt(e, "tf32 is for f32");
  }

  void CheckMma(const Expr& e, const Call& n) {
    if (Schedulable()) return FailAt(e, "a product of tensor cores before lowering");
    if (e.get() != stored_.get()) return FailAt(e, "only the whole value of a store is a product of tensor cores");
    const DType c = n.args[0].dtype(), a = n.args[1].dtype(), b = n.args[2].dtype();
    const MmaType* type = MmaTypeOf(a.Element());
    const bool fits = type && c == DType::Float(32).WithLanes(kMmaSums) && a.lanes == type->a_elements() &&
                      b == type->operand.WithLanes(type->b_elements()) && e.dtype() == c;
    if (!fits) return FailAt(e, "matrices that tensor cores do not multiply");
    threads_ = true;
  }

  void CheckDot(const Expr& e, const Call& n) {
    if (Schedulable()) return FailAt(e, "a dot product before lowering");
    const DType c = n.args[0].dtype(), a = n.args[1].dtype(), b = n.args[2].dtype();
    const int group = DotGroup(a.Element());
    const bool fits = AreDotOperands(a.Element(), b.Element()) && c.Element() == SumType(a.Element(), b.Element()) &&
                      e.dtype() == c && b.lanes == group * c.lanes && (a.lanes == b.lanes || a.lanes == group);
    if (!fits) FailAt(e, "operands that dot does not multiply");
  }

  int CheckAccess(const Buffer& buffer, const std::vector<Expr>& indices) {
    if (!buffer) return Fail("an access without a buffer"), 1;
    const std::string& name = buffer->name.str();
    auto it = buffers_.find(buffer->name);
    if (it == buffers_.end()) return Fail("buffer " + name + " is not declared"), 1;
    if (!it->second.Same(buffer) && !Equal(it->second, buffer)) {
      return Fail("buffer " + name + " differs from its declaration"), 1;
    }
    // A prefetch is only a hint, so it may stand outside of blocks.
    if (Schedulable() && block_.empty() && !in_evaluate_)
      return Fail("an access to " + name + " outside of a block"), 1;
    bool flat = !Schedulable() && indices.size() == 1;
    if (indices.size() != buffer->shape.size() && !flat) {
      return Fail(std::to_string(indices.size()) + " indices for buffer " + name + " of " +
                  std::to_string(buffer->shape.size()) + " dimensions"),
             1;
    }
    int lanes = 1;
    for (const Expr& index : indices) {
      Check(index);
      if (!ok()) return 1;
      DType dtype = index.dtype();
      if (!dtype.IsInt()) Fail("an index of " + name + " is " + dtype.Text());
      if (dtype.lanes != 1) {
        if (lanes != 1 && lanes != dtype.lanes) Fail("indices of " + name + " have different numbers of lanes");
        lanes = dtype.lanes;
      }
    }
    return lanes;
  }

  void CheckCondition(const Expr& e) {
    Check(e);
    if (ok() && e.dtype() != DType::Bool()) FailAt(e, "a condition must be bool, but is " + e.dtype().Text());
  }

  // --- statements
  void Check(const Stmt& s) {
    if (!ok()) return;
    if (!s) return Fail("a statement is absent");
    s.Visit(Overloaded{
        [&](const Store& n) {
          int lanes = CheckAccess(n.buffer, n.indices);
          if (n.buffer && n.buffer->scope == autotune::Scope::kShared) async_ = n.value;
          stored_ = n.value;
          Check(n.value);
          async_ = stored_ = Expr();
          if (!ok()) return;
          if (n.value.dtype() != n.buffer->dtype.WithLanes(lanes)) {
            FailAt(n.value, "a value of " + n.value.dtype().Text() + " stored to " + n.buffer->name.str());
          }
          if (read_only_.contains(n.buffer->name)) Fail("a store to the input " + n.buffer->name.str());
        },
        [&](const Evaluate& n) {
          const Call* call = n.value ? n.value.As<Call>() : nullptr;
          bool prefetch = call && IsPrefetch(call->op) && !call->args.empty() && call->args[0].As<Load>();
          if (!prefetch && !IsBarrier(s) && !(call && IsAsyncGroup(call->op)))
            return Fail("only a prefetch of a load, a barrier and groups of asynchronous stores can be evaluated");
          in_evaluate_ = true;
          Check(n.value);
          in_evaluate_ = false;
        },
        [&](const Seq& n) {
          if (n.stmts.size() == 1) Fail("a sequence of one statement");
          for (const Stmt& child : n.stmts) {
            if (child && child.As<Seq>()) Fail("a sequence within a sequence");
            Check(child);
          }
        },
        [&](const If& n) {
          CheckCondition(n.condition);
          Check(n.then_body);
          if (n.else_body) Check(n.else_body);
        },
        [&](const For& n) {
          CheckExtent(n.extent, "the extent of loop " + n.var.str());
          if (!ok()) return;
          Bind(n.var, n.extent.dtype());
          threads_ |= IsBound(n.kind);
          around_.push_back(&n);
          Check(n.body);
          around_.pop_back();
          scope_.erase(n.var);
        },
        [&](const Block& n) { CheckBlock(n); },
        [&](const Alloc& n) {
          if (Schedulable()) return Fail("a local buffer before lowering");
          if (!n.buffer) return Fail("an allocation without a buffer");
          Declare(n.buffer);
          for (const Expr& extent : n.buffer->shape) {
            if (ok() && !AsInt(extent)) Fail("the local buffer " + n.buffer->name.str() + " has no constant shape");
          }
          Check(n.body);
          buffers_.erase(n.buffer->name);
        },
        [&](const Let& n) {
          if (Schedulable()) return Fail("a let before lowering");
          Check(n.value);
          if (!ok()) return;
          Bind(n.var, n.value.dtype());
          Check(n.body);
          scope_.erase(n.var);
        },
    });
  }

  void CheckBlock(const Block& n) {
    if (!Schedulable()) return Fail("block " + n.name.str() + " after lowering");
    if (n.name.empty()) return Fail("a block has no name");
    if (!block_.empty()) return Fail("block " + n.name.str() + " within a block");
    if (!blocks_.insert(n.name).second) return Fail("two blocks named " + n.name.str());
    block_ = n.name;
    for (const Iter& iter : n.iters) {
      Check(iter.binding);
      if (ok() && (!iter.extent || iter.binding.dtype() != iter.extent.dtype())) {
        Fail("the binding of iterator " + iter.var.str() + " has another dtype than its extent");
      }
    }
    Scope around = scope_, inside = symbols_;
    std::swap(scope_, inside);
    for (const Iter& iter : n.iters) CheckExtent(iter.extent, "the extent of iterator " + iter.var.str());
    for (const Iter& iter : n.iters) {
      if (ok()) Bind(iter.var, iter.extent.dtype());
    }
    if (n.predicate) {
      inside = scope_;
      scope_.insert(around.begin(), around.end());
      CheckCondition(n.predicate);
      scope_ = std::move(inside);
    }
    if (n.init) Check(n.init);
    Check(n.body);
    scope_ = std::move(around);
    if (!ok()) return;
    if (Status once = CheckReduction(n, around_, budget_); !once.ok()) Fail(once.error().message);
    if (ok()) block_ = Name();
  }

  using Scope = std::unordered_map<Name, DType>;
  const PrimFunc& f_;
  Dialect dialect_;
  std::string error_;
  Name block_;
  bool in_evaluate_ = false;
  Expr async_;            // the value that may be asynchronous
  Expr stored_;           // the value of the store that is being checked
  bool threads_ = false;  // the function has parts to which the rules of ir/threads.h apply
  Scope scope_, symbols_;
  std::vector<const For*> around_;
  int64_t budget_ = 1 << 23;  // nodes that CheckReduction may evaluate, in about half a second
  std::unordered_set<Name> bound_, buffers_bound_, blocks_, read_only_;
  std::unordered_map<Name, Buffer> buffers_;
};

}  // namespace

Status Verify(const PrimFunc& f, Dialect dialect) { return Verifier(f, dialect).Run(); }

}  // namespace autotune
