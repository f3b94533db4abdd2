#include "tests/ir/random_program.h"

#include <algorithm>
#include <string>

#include "support/rng.h"

namespace autotune::test {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed, const RandomProgramOptions& options = {}) : rng_(seed), options_(options) {
    static constexpr DType kTypes[] = {DType::Float(64), DType::Int(32), DType::Int(8)};
    dtype_ = options.float_only || rng_.Below(4) ? DType::Float(32) : kTypes[rng_.Below(3)];
    limit_ = dtype_ == DType::Int(8) ? 120 : 1 << 20;
  }

  PrimFunc Make() {
    f_.name = "random";
    AddInput();
    int64_t stages = 1 + rng_.Below(options_.max_stages);
    if (options_.stages) stages = options_.stages;
    for (int64_t i = 0; i < stages; ++i) AddStage();
    // Buffers that no stage reads are outputs. Some other buffers are outputs, too.
    std::vector<Stmt> stmts = std::move(stmts_);
    for (Value& value : values_) {
      if (value.is_input) continue;
      if (!value.read || rng_.Below(6) == 0) {
        f_.params.push_back({value.buffer, ParamRole::kOutput});
      } else {
        f_.allocs.push_back(value.buffer);
      }
    }
    f_.body = MakeSeq(std::move(stmts));
    return f_;
  }

 private:
  struct Value {  // a buffer and the largest magnitude of its elements
    Buffer buffer;
    std::vector<int64_t> shape;
    int64_t bound = 2;
    bool is_input = false, read = false;
  };

  int64_t Extent() {
    static constexpr int64_t kOdd[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13}, kEven[] = {1, 2, 4, 8, 16};
    return std::min(options_.max_extent, options_.odd_shapes ? kOdd[rng_.Below(10)] : kEven[rng_.Below(5)]);
  }
  Name Fresh(const std::string& base) { return base + std::to_string(count_++); }
  Expr Const(int64_t v) { return ConstOf(static_cast<double>(v), dtype_); }

  size_t AddInput(std::vector<int64_t> shape = {}) {
    if (shape.empty()) {
      for (int64_t rank = 1 + rng_.Below(3), i = 0; i < rank; ++i) shape.push_back(Extent());
    }
    Value value{Buffer::Make(Fresh("in"), dtype_, {shape.begin(), shape.end()}), shape};
    value.is_input = true;
    f_.params.push_back({value.buffer, rng_.Below(3) ? ParamRole::kInput : ParamRole::kConstant});
    values_.push_back(std::move(value));
    return values_.size() - 1;
  }

  // A block that computes a buffer, with its loops and iterators. Open makes the block for a buffer of `shape`;
  // `reduce` gives the extents of its reduction iterators.
  struct Nest {
    Name name;
    std::vector<Name> loops;
    Block block;
    std::vector<Expr> vars;  // the iterators; the spatial ones come first
  };
  Nest Open(const std::vector<int64_t>& shape, const std::vector<int64_t>& reduce) {
    Nest nest;
    nest.name = Fresh("stage");
    nest.block.name = nest.name;
    auto add = [&](int64_t extent, IterKind kind, const std::string& axis) {
      Name loop = nest.name.str() + "_" + axis, iter = "v_" + loop.str();
      nest.loops.push_back(loop);
      nest.vars.push_back(IndexVar(iter));
      nest.block.iters.push_back({iter, kind, Expr(extent), IndexVar(loop)});
    };
    for (size_t i = 0; i < shape.size(); ++i) add(shape[i], IterKind::kSpatial, "i" + std::to_string(i));
    for (size_t i = 0; i < reduce.size(); ++i) add(reduce[i], IterKind::kReduce, "r" + std::to_string(i));
    return nest;
  }
  Buffer Output(const Nest& nest, const std::vector<int64_t>& shape, int64_t bound,
                const std::string& suffix = "_out") {
    Value value{Buffer::Make(nest.name.str() + suffix, dtype_, {shape.begin(), shape.end()}), shape, bound};
    values_.push_back(value);
    return values_.back().buffer;
  }
  void Close(Nest nest) {
    Stmt s = MakeStmt(nest.block);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      s = MakeStmt(For{nest.loops[i], nest.block.iters[i].extent, LoopKind::kSerial, {}, s});
    }
    stmts_.push_back(s);
  }

  Value& Pick() {
    // Prefers the newest buffer, so that chains grow.
    size_t i = rng_.Below(2) ? values_.size() - 1 : rng_.Below(static_cast<int64_t>(values_.size()));
    values_[i].read = true;
    return values_[i];
  }

  static std::vector<Expr> First(const std::vector<Expr>& vars, size_t n) { return {vars.begin(), vars.begin() + n}; }

  void AddStage() {
    switch (rng_.Below(10)) {
      case 0:
        return AddReduction();
      case 1:
        return AddMatmul();
      case 2:
        return AddPadding();
      case 3:
        return AddWindow();
      case 4:
        return AddPermutation();
      case 5:
        return AddReshape();
      case 6:
        return AddSlice();
      case 7:
        return AddDiagonal();
      default:
        return AddElementwise();
    }
  }

  void AddElementwise() {
    Value a = Pick();
    Nest nest = Open(a.shape, {});
    Expr x = MakeLoad(a.buffer, nest.vars);
    int64_t bound = a.bound;
    // The second operand has the same shape, is one row, which broadcasts, or is a constant.
    size_t other = rng_.Below(static_cast<int64_t>(values_.size()));
    bool same = values_[other].shape == a.shape;
    Expr y;
    if (!same && a.shape.size() > 1 && rng_.Below(2)) other = AddInput({a.shape.back()});
    if (same || values_[other].shape == std::vector<int64_t>{a.shape.back()}) {
      values_[other].read = true;
      y = MakeLoad(values_[other].buffer, same ? nest.vars : std::vector<Expr>{nest.vars.back()});
    }
    int64_t y_bound = y ? values_[other].bound : 2;
    if (!y) y = Const(rng_.Below(5) - 2);
    Expr value;
    switch (rng_.Below(7)) {
      case 0:
        value = Max(x, Const(0));
        break;
      case 1:
        value = Min(Max(x, Const(-3)), Const(3));
        bound = 3;
        break;
      case 2:
        value = MakeSelect(x > y, x, -y);
        bound = std::max(bound, y_bound);
        break;
      case 3:
        if (bound * y_bound <= limit_) {
          value = x * y;
          bound *= y_bound;
          break;
        }
        [[fallthrough]];
      case 4:
        if (bound + y_bound <= limit_) {
          value = x + y;
          bound += y_bound;
          break;
        }
        [[fallthrough]];
      case 5:
        value = MakeCall(Op::kAbs, {x});
        break;
      default:
        value = Max(x, y);
        bound = std::max(bound, y_bound);
    }
    Buffer out = Output(nest, a.shape, bound);
    Stmt body = MakeStmt(Store{out, nest.vars, value});
    if (rng_.Below(8) == 0) {  // a block that writes two buffers
      Buffer second = Output(nest, a.shape, a.bound, "_second");
      body = MakeSeq({body, MakeStmt(Store{second, nest.vars, MakeUnary(UnaryOp::kNeg, x)})});
    }
    nest.block.body = body;
    Close(std::move(nest));
  }

  // Adds a stage out[vars] = combine(out[vars], term) over the reduction iterators. `count` is the product of the
  // extents of these iterators.
  void Reduce(Nest nest, const std::vector<int64_t>& shape, const Expr& term, int64_t bound, int64_t count) {
    std::vector<Expr> at = First(nest.vars, shape.size());
    bool sum = bound * count <= limit_ && rng_.Below(3);
    bool is_max = rng_.Below(2);
    Buffer out = Output(nest, shape, sum ? bound * count : bound);
    Expr old = MakeLoad(out, at);
    Expr identity = sum ? Const(0) : Const(is_max ? -limit_ : limit_);
    Expr value = sum ? old + term : is_max ? Max(old, term) : Min(old, term);
    nest.block.init = MakeStmt(Store{out, at, identity});
    nest.block.body = MakeStmt(Store{out, at, value});
    Close(std::move(nest));
  }

  void AddReduction() {
    Value a = Pick();
    // Reduces some axes and keeps the others.
    std::vector<int64_t> keep, reduce;
    std::vector<bool> reduced;
    int64_t count = 1;
    for (size_t i = 0; i < a.shape.size(); ++i) {
      reduced.push_back(rng_.Below(2) || (i + 1 == a.shape.size() && reduce.empty()));
      (reduced[i] ? reduce : keep).push_back(a.shape[i]);
      if (reduced[i]) count *= a.shape[i];
    }
    if (keep.empty()) keep.push_back(1);
    Nest nest = Open(keep, reduce);
    std::vector<Expr> at;
    size_t s = 0, r = keep.size();
    for (bool is_reduced : reduced) at.push_back(nest.vars[is_reduced ? r++ : s++]);
    Expr term = MakeLoad(a.buffer, at);
    Reduce(std::move(nest), keep, term, a.bound, count);
  }

  void AddMatmul() {
    Value a = Pick();
    if (a.shape.size() < 2 || a.bound * 2 > limit_) return AddElementwise();
    int64_t k = a.shape.back();
    size_t weight = AddInput({k, Extent()});
    values_[weight].read = true;
    Value b = values_[weight];
    std::vector<int64_t> shape = a.shape;
    shape.back() = b.shape[1];
    Nest nest = Open(shape, {k});
    std::vector<Expr> at = First(nest.vars, shape.size());
    at.back() = nest.vars.back();
    Expr term = MakeLoad(a.buffer, at) * MakeLoad(b.buffer, {nest.vars.back(), nest.vars[shape.size() - 1]});
    Reduce(std::move(nest), shape, term, a.bound * b.bound, k);
  }

  void AddPadding() {
    Value a = Pick();
    size_t axis = rng_.Below(static_cast<int64_t>(a.shape.size()));
    int64_t before = rng_.Below(3), after = rng_.Below(3);
    std::vector<int64_t> shape = a.shape;
    shape[axis] += before + after;
    Nest nest = Open(shape, {});
    std::vector<Expr> at = nest.vars;
    at[axis] = nest.vars[axis] - Expr(before);
    Expr inside = And(nest.vars[axis] >= Expr(before), nest.vars[axis] < Expr(before + a.shape[axis]));
    Buffer out = Output(nest, shape, a.bound);
    nest.block.body = MakeStmt(Store{out, nest.vars, MakeSelect(inside, MakeLoad(a.buffer, at), Const(0))});
    Close(std::move(nest));
  }

  void AddWindow() {
    Value a = Pick();
    size_t axis = rng_.Below(static_cast<int64_t>(a.shape.size()));
    int64_t size = 1 + rng_.Below(std::min<int64_t>(3, a.shape[axis])), stride = 1 + rng_.Below(2);
    std::vector<int64_t> shape = a.shape;
    shape[axis] = (a.shape[axis] - size) / stride + 1;
    Nest nest = Open(shape, {size});
    std::vector<Expr> at = First(nest.vars, shape.size());
    at[axis] = nest.vars[axis] * Expr(stride) + nest.vars.back();
    Expr term = MakeLoad(a.buffer, at);
    Reduce(std::move(nest), shape, term, a.bound, size);
  }

  void AddPermutation() {
    Value a = Pick();
    size_t rank = a.shape.size(), shift = rank > 1 ? 1 + rng_.Below(static_cast<int64_t>(rank) - 1) : 0;
    std::vector<int64_t> shape(rank);
    for (size_t i = 0; i < rank; ++i) shape[(i + shift) % rank] = a.shape[i];
    Nest nest = Open(shape, {});
    std::vector<Expr> at(rank);
    for (size_t i = 0; i < rank; ++i) at[i] = nest.vars[(i + shift) % rank];
    Buffer out = Output(nest, shape, a.bound);
    nest.block.body = MakeStmt(Store{out, nest.vars, MakeLoad(a.buffer, at)});
    Close(std::move(nest));
  }

  void AddReshape() {
    Value a = Pick();
    int64_t count = 1;
    for (int64_t extent : a.shape) count *= extent;
    Nest nest = Open({count}, {});
    std::vector<Expr> at(a.shape.size());
    int64_t inner = 1;
    for (size_t i = a.shape.size(); i-- > 0; inner *= a.shape[i]) {
      at[i] = FloorDiv(nest.vars[0], Expr(inner));
      if (i > 0) at[i] = FloorMod(at[i], Expr(a.shape[i]));
    }
    Buffer out = Output(nest, {count}, a.bound);
    nest.block.body = MakeStmt(Store{out, nest.vars, MakeLoad(a.buffer, at)});
    Close(std::move(nest));
  }

  // Adds a stage that reads a part of an axis, so that not every element of its producer is needed.
  void AddSlice() {
    Value a = Pick();
    size_t axis = rng_.Below(static_cast<int64_t>(a.shape.size()));
    std::vector<int64_t> shape = a.shape;
    shape[axis] = 1 + rng_.Below(a.shape[axis]);
    int64_t start = rng_.Below(a.shape[axis] - shape[axis] + 1);
    Nest nest = Open(shape, {});
    std::vector<Expr> at = nest.vars;
    at[axis] = nest.vars[axis] + Expr(start);
    Buffer out = Output(nest, shape, a.bound);
    nest.block.body = MakeStmt(Store{out, nest.vars, MakeLoad(a.buffer, at)});
    Close(std::move(nest));
  }

  // Adds a stage out[v, ...] = a[v, v, ...].
  void AddDiagonal() {
    Value a = Pick();
    if (a.shape.size() < 2) return AddElementwise();
    std::vector<int64_t> shape(a.shape.begin() + 1, a.shape.end());
    shape[0] = std::min(a.shape[0], a.shape[1]);
    Nest nest = Open(shape, {});
    std::vector<Expr> at = nest.vars;
    at.insert(at.begin(), nest.vars[0]);
    Buffer out = Output(nest, shape, a.bound);
    nest.block.body = MakeStmt(Store{out, nest.vars, MakeLoad(a.buffer, at)});
    Close(std::move(nest));
  }

  Rng rng_;
  RandomProgramOptions options_;
  DType dtype_;
  int64_t limit_ = 0;
  int count_ = 0;
  PrimFunc f_;
  std::vector<Value> values_;
  std::vector<Stmt> stmts_;
};

}  // namespace

std::vector<InterpArray> RandomArgs(const PrimFunc& f, uint64_t seed) {
  Rng rng(seed);
  std::vector<InterpArray> args;
  for (const Param& param : f.params) {
    InterpArray array{param.buffer->dtype, ConstShape(param.buffer), {}};
    int64_t count = 1;
    for (int64_t extent : array.shape) count *= extent;
    for (int64_t i = 0; i < count && param.role != ParamRole::kOutput; ++i) {
      array.data.push_back(static_cast<double>(rng.Below(5) - 2));
    }
    args.push_back(std::move(array));
  }
  return args;
}

PrimFunc MakeRandomProgram(uint64_t seed, const RandomProgramOptions& options) {
  return RandomProgram(seed, options).Make();
}

}  // namespace autotune::test
