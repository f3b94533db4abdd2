#include "te/create_prim_func.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "ir/watch.h"
#include "support/check.h"

namespace autotune::te {
namespace {

class Creator {
 public:
  explicit Creator(const CreateOptions& options) : options_(options) {}

  PrimFunc Create(const std::string& name, const std::vector<TensorParam>& params) {
    PrimFunc f;
    f.name = name;
    for (const TensorParam& p : params) {
      CHECK(!p.tensor->splat) << "a splat cannot be a parameter";
      CHECK(p.tensor->parts.empty() == (p.role != ParamRole::kOutput)) << p.tensor->name.str() << ": wrong role";
      std::string base = !p.name.empty() ? p.name : p.tensor->name.str();
      if (p.name.empty() && p.role == ParamRole::kOutput) base += "_out";
      Buffer buffer = MakeBuffer(Unique(base), p.tensor, p.tensor.shape());
      bool added = params_.emplace(p.tensor.get(), buffer).second;
      CHECK(added) << p.tensor->name.str() << " is listed twice";
      if (!AccumulatesApart(p.tensor)) buffers_.emplace(p.tensor.get(), buffer);
      f.params.push_back({buffer, p.role});
    }
    for (const TensorParam& p : params) {
      if (p.role == ParamRole::kOutput) VisitNumbers(p.tensor, &f);
    }
    for (const TensorParam& p : params) {
      if (p.role == ParamRole::kOutput) Visit(p.tensor, &f);
    }
    for (const TensorParam& p : params) {
      if (AccumulatesApart(p.tensor)) EmitStore(p.tensor);
    }
    f.body = MakeSeq(Needed(&f));
    return f;
  }

 private:
  // Returns the nests that an output depends on. A tensor may list inputs that its simplified body does not load. For
  // example, a Where of two equal values does not need its condition.
  std::vector<Stmt> Needed(PrimFunc* f) const {
    std::unordered_set<const BufferCell*> read, written;
    for (const Param& p : f->params) read.insert(p.buffer.get());
    std::vector<Stmt> needed;
    for (auto nest = nests_.rbegin(); nest != nests_.rend(); ++nest) {
      if (!read.count(nest->written.get())) continue;
      needed.push_back(nest->stmt);
      Walk(
          nest->stmt,
          [&](const Stmt& s) {
            if (const Store* store = s.As<Store>()) written.insert(store->buffer.get());
            return true;
          },
          [&](const Expr& e) {
            if (const Load* load = e.As<Load>()) read.insert(load->buffer.get());
            return true;
          });
    }
    std::reverse(needed.begin(), needed.end());
    std::erase_if(f->allocs, [&](const Buffer& b) { return !read.count(b.get()) && !written.count(b.get()); });
    return needed;
  }

  std::string Unique(const std::string& base) {
    std::string name = base;
    for (int i = 1; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }

  static Buffer MakeBuffer(const std::string& name, const Tensor& t, const Shape& shape) {
    return Buffer::Make(name, t.dtype(), {shape.begin(), shape.end()});
  }

  // Returns true for a reduction whose axes are not the dimensions of the output. It gets a buffer of its own and a
  // block that copies it to the output, since accumulators with subscripts m // W, m % W cannot be in registers.
  static bool AccumulatesApart(const Tensor& t) {
    return !t->parts.empty() && t->parts[0].combiner && t->StoredShape() != t.shape();
  }

  // Emits the tensors behind t that have one element and depend on such tensors and on elements of parameters alone.
  // They come first, since a nest between a reduction and its epilogue would keep the two apart. Returns whether t is
  // such a tensor.
  bool VisitNumbers(const Tensor& t, PrimFunc* f) {
    const auto [known, is_new] = is_number_.try_emplace(t.get(), t->splat || Product(t->shape) == 1);
    if (!is_new) return known->second;
    bool is_number = known->second;
    const bool sums = std::ranges::any_of(t->parts, [](const Part& part) { return part.combiner.has_value(); });
    for (const Tensor& input : t->inputs) {
      const bool is_element = !sums && input->parts.empty();
      is_number = (VisitNumbers(input, f) || is_element) && is_number;
    }
    if (is_number) Visit(t, f);
    return is_number_[t.get()] = is_number;
  }

  // Emits the inputs of t, in order, then t. Equal expressions thus give equal functions.
  void Visit(const Tensor& t, PrimFunc* f) {
    if (t->splat || !visited_.insert(t.get()).second) return;
    for (const Tensor& input : t->inputs) Visit(input, f);
    if (t->buffer) tensors_.emplace(t->buffer.get(), t);
    if (t->parts.empty()) {
      CHECK(buffers_.count(t.get())) << "placeholder " << t->name.str() << " is not a parameter";
      return;
    }
    if (!buffers_.count(t.get())) {
      Buffer buffer = MakeBuffer(Unique(t->name.str() + "_out"), t, t->StoredShape());
      buffers_.emplace(t.get(), buffer);
      f->allocs.push_back(buffer);
    }
    for (const Part& part : t->parts) Emit(t, part, buffers_.at(t.get()), f);
  }

  // Maps subscripts in the stored shape of t to subscripts of its buffer. The buffer of a parameter has the logical
  // shape.
  static std::vector<Expr> Subscripts(const Tensor& t, const std::vector<Expr>& stored, const Buffer& buffer) {
    return ReshapeIndices(stored, t->StoredShape(), ConstShape(buffer));
  }

  Expr Bind(const Expr& e, const VarMap& iters) const {
    return RewriteExpr(Substitute(e, iters), [&](const Expr& x) -> Expr {
      const Load* load = x.As<Load>();
      if (!load || !tensors_.count(load->buffer.get())) return x;  // scratch memory
      const Tensor& t = tensors_.at(load->buffer.get());
      const Buffer& buffer = buffers_.at(t.get());
      return MakeLoad(buffer, Subscripts(t, load->indices, buffer));
    });
  }

  // Returns a part's program on the function's buffers. Renames its loops and adds its scratch buffers to `f`.
  Stmt BindProgram(const Tensor& t, const Part& part, const std::string& block, const Buffer& out, VarMap names,
                   PrimFunc* f) {
    std::unordered_map<const BufferCell*, Buffer> scratch;
    for (const Buffer& buffer : part.scratch) {
      Buffer own = Buffer::Make(Unique(block + "_" + buffer->name.str()), buffer->dtype, buffer->shape);
      scratch.emplace(buffer.get(), own);
      f->allocs.push_back(own);
    }
    auto bind = [&](const Expr& e) {
      return RewriteExpr(Bind(e, names), [&](const Expr& x) -> Expr {
        const Load* load = x.As<Load>();
        auto own = load ? scratch.find(load->buffer.get()) : scratch.end();
        return own == scratch.end() ? x : MakeLoad(own->second, load->indices);
      });
    };
    std::function<Stmt(const Stmt&)> rewrite = [&](const Stmt& s) -> Stmt {
      if (const Store* store = s.As<Store>()) {
        std::vector<Expr> at;
        for (const Expr& e : store->indices) at.push_back(bind(e));
        auto own = scratch.find(store->buffer.get());
        if (own != scratch.end()) return MakeStmt(Store{own->second, at, bind(store->value)});
        CHECK(store->buffer.get() == t->buffer.get()) << t->name.str() << " writes a buffer that is not its own";
        return MakeStmt(Store{out, Subscripts(t, at, out), bind(store->value)});
      }
      if (const For* loop = s.As<For>()) {
        For renamed = *loop;
        renamed.var = Unique(block + "_" + loop->var.str());
        names[loop->var] = IndexVar(renamed.var);
        renamed.body = rewrite(loop->body);
        return MakeStmt(renamed);
      }
      return MapChildren(s, rewrite, bind);
    };
    return rewrite(part.program);
  }

  Expr Update(Combiner combiner, const Expr& old, const Expr& value) const {
    const Binary* product = value.As<Binary>();
    switch (combiner) {
      case Combiner::kSum:
        if (options_.use_fma && value.dtype().IsFloat() && product && product->op == BinaryOp::kMul) {
          return MakeCall(Op::kFma, {product->a, product->b, old});
        }
        return old + value;
      case Combiner::kProd:
        return old * value;
      case Combiner::kMax:
        return Max(old, value);
      case Combiner::kMin:
        return Min(old, value);
    }
    UNREACHABLE();
    return Expr();
  }

  void EmitStore(const Tensor& t) {
    std::vector<Expr> vars = AxisVars(t->axes);
    Emit(t, Part{.suffix = "_store", .axes = t->axes, .store = vars, .body = t.AtAxes(vars)}, params_.at(t.get()),
         nullptr);
  }

  // Emits the block of one part. Adds the scratch buffers of a program to `f`.
  void Emit(const Tensor& t, const Part& part, const Buffer& buffer, PrimFunc* f) {
    Block block;
    std::string name = Unique(t->name.str() + part.suffix);
    block.name = name;
    block.annotations = part.annotations;
    VarMap iters;
    std::vector<Name> loops;
    auto add = [&](const Axis& axis, IterKind kind) {
      Name loop = Unique(name + "_" + axis.name.str());
      Name iter = Unique("v_" + loop.str());
      loops.push_back(loop);
      block.iters.push_back({iter, kind, axis.extent, IndexVar(loop)});
      bool fresh = iters.emplace(axis.name, IndexVar(iter)).second;
      CHECK(fresh) << "block " << name << " has two axes " << axis.name.str();
    };
    for (const Axis& axis : part.axes) add(axis, IterKind::kSpatial);
    for (const Axis& axis : part.reduce_axes) add(axis, IterKind::kReduce);

    if (part.program) {
      block.body = BindProgram(t, part, name, buffer, iters, f);
      return AddNest(block, loops, buffer);
    }
    std::vector<Expr> store;
    for (const Expr& e : part.store) store.push_back(Bind(e, iters));
    store = Subscripts(t, store, buffer);
    // Iterators with one value stay variables, so that the form of a block does not depend on extents.
    Analyzer analyzer;
    for (const Iter& iter : block.iters) {
      int64_t extent = *AsInt(iter.extent);
      if (extent > 1) analyzer.Bind(iter.var, 0, extent - 1);
    }
    for (Expr& e : store) e = analyzer.Simplify(e);
    Expr value = analyzer.Simplify(Bind(part.body, iters));
    if (part.combiner) {
      if (!part.in_place) block.init = MakeStmt(Store{buffer, store, IdentityOf(*part.combiner, t.dtype())});
      value = Update(*part.combiner, MakeLoad(buffer, store), value);
    }
    block.body = MakeStmt(Store{buffer, store, value});
    AddNest(block, loops, buffer);
  }

  // Adds the nest of the block inside one loop for each of its iterators.
  void AddNest(const Block& block, const std::vector<Name>& loops, const Buffer& buffer) {
    Stmt nest = MakeStmt(block);
    for (size_t i = block.iters.size(); i-- > 0;) {
      nest = MakeStmt(For{.var = loops[i], .extent = block.iters[i].extent, .body = nest});
    }
    nests_.push_back({nest, buffer});
  }

  CreateOptions options_;
  std::unordered_set<std::string> names_;
  std::unordered_set<const TensorCell*> visited_;
  std::unordered_map<const TensorCell*, bool> is_number_;  // as VisitNumbers returns it
  std::unordered_map<const TensorCell*, Buffer> params_;
  std::unordered_map<const TensorCell*, Buffer> buffers_;  // the buffer that a tensor's consumers load
  std::unordered_map<const BufferCell*, Tensor> tensors_;  // the tensor of each buffer that bodies load
  struct Nest {
    Stmt stmt;
    Buffer written;
  };
  std::vector<Nest> nests_;
};

}  // namespace

PrimFunc CreatePrimFunc(const std::string& name, const std::vector<TensorParam>& params, const CreateOptions& options) {
  PrimFunc f = Creator(options).Create(name, params);
  ShowProgram(f, [] { return std::string("made from tensor expressions"); });
  return f;
}

}  // namespace autotune::te
