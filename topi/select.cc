#include "topi/select.h"

#include <algorithm>

#include "support/check.h"
#include "topi/transform.h"

namespace autotune::topi {
namespace {

const DType kPlace = DType::Int(64);

Expr AsIndex(const Expr& e) { return MakeCast(DType::Index(), e); }

Stmt Loop(const std::string& var, int64_t extent, const Stmt& body) {
  return MakeStmt(For{.var = var, .extent = extent, .body = body});
}
Stmt Set(const Buffer& buffer, const Expr& at, const Expr& value) { return MakeStmt(Store{buffer, {at}, value}); }
Stmt When(const Expr& condition, std::vector<Stmt> body) {
  return MakeStmt(If{condition, MakeSeq(std::move(body)), Stmt()});
}
Expr At(const Buffer& buffer, const Expr& at) { return MakeLoad(buffer, {at}); }

// A heap of the k best elements so far, in scratch memory, whose root is the worst of them.
class Heap {
 public:
  Heap(int64_t k, bool largest, DType dtype)
      : k_(k),
        largest_(largest),
        keys_(Buffer::Make("keys", dtype, {k})),
        places_(Buffer::Make("places", kPlace, {k})),
        key_(Buffer::Make("key", dtype, {1})),
        place_(Buffer::Make("place", kPlace, {1})),
        hole_(Buffer::Make("hole", kPlace, {1})) {
    while ((int64_t{1} << levels_) < k) ++levels_;
  }

  std::vector<Buffer> Scratch() const { return {keys_, places_, key_, place_, hole_}; }

  // Fills the heap with the first k elements, and puts them into the order of a heap.
  Stmt Fill(const std::function<Expr(const Expr&)>& row) const {
    Expr i = IndexVar("i"), p = k_ / 2 - 1 - IndexVar("p");
    Stmt copy = MakeSeq({Set(keys_, i, row(i)), Set(places_, i, MakeCast(kPlace, i))});
    Stmt fill = Loop("i", k_, copy);
    if (k_ < 2) return fill;
    Stmt order = MakeSeq({Set(key_, 0, At(keys_, p)), Set(place_, 0, At(places_, p)), SiftDown("fill", p, k_)});
    return MakeSeq({fill, Loop("p", k_ / 2, order)});
  }

  // Replaces the root by each of the other elements that is better. An equal element is not better, since its place is
  // larger.
  Stmt Scan(int64_t n, const std::function<Expr(const Expr&)>& row) const {
    Expr i = IndexVar("j") + k_, root = At(keys_, 0);
    Stmt replace = When(largest_ ? root < row(i) : row(i) < root,
                        {Set(key_, 0, row(i)), Set(place_, 0, MakeCast(kPlace, i)), SiftDown("scan", 0, k_)});
    return Loop("j", n - k_, replace);
  }

  // Sorts the places from the best to the worst. Each step moves the root, the worst element, behind the remaining
  // heap.
  Stmt Sort() const {
    if (k_ < 2) return MakeSeq({});
    Expr last = k_ - 1 - IndexVar("s");
    return Loop(
        "s", k_ - 1,
        MakeSeq({Set(key_, 0, At(keys_, last)), Set(place_, 0, At(places_, last)), Set(keys_, last, At(keys_, 0)),
                 Set(places_, last, At(places_, 0)), SiftDown("sort", 0, last)}));
  }

  const Buffer& places() const { return places_; }

 private:
  // Returns the condition that element `a` is worse than `b`.
  Expr Worse(const Expr& a, const Expr& a_place, const Expr& b, const Expr& b_place) const {
    return Or(largest_ ? a < b : b < a, And(Eq(a, b), b_place < a_place));
  }

  // Inserts (key, place) into the heap of `size` elements, at `from` or below, by moving worse children up. Once no
  // child is worse, the remaining levels change nothing.
  Stmt SiftDown(const std::string& tag, const Expr& from, const Expr& size) const {
    Expr hole = AsIndex(At(hole_, 0)), left = hole * 2 + 1, right = left + 1;
    // A missing child is replaced by the last element.
    Expr last = size - 1, l = Min(left, last), r = Min(right, last);
    Expr child = MakeSelect(Worse(At(keys_, r), At(places_, r), At(keys_, l), At(places_, l)), r, l);
    Buffer next = hole_;
    Stmt rise = MakeSeq({Set(keys_, hole, At(keys_, child)), Set(places_, hole, At(places_, child)),
                         Set(next, 0, MakeCast(kPlace, child))});
    Stmt level =
        When(left < size, {When(Worse(At(keys_, child), At(places_, child), At(key_, 0), At(place_, 0)), {rise})});
    return MakeSeq({Set(hole_, 0, MakeCast(kPlace, from)), Loop("level_" + tag, levels_, level),
                    Set(keys_, hole, At(key_, 0)), Set(places_, hole, At(place_, 0))});
  }

  int64_t k_, levels_ = 0;
  bool largest_;
  Buffer keys_, places_, key_, place_, hole_;
};

std::vector<te::Axis> Without(std::vector<te::Axis> axes, size_t last) {
  axes.resize(axes.size() - last);
  return axes;
}

}  // namespace

Tensor TopK(const std::string& name, const Tensor& x, int64_t k, bool largest) {
  const int64_t n = x.shape().back();
  CHECK(k >= 1 && k <= n) << name;
  Shape shape = x.shape();
  shape.back() = k;
  const Heap heap(k, largest, x.dtype());
  auto program = [&](const std::vector<Expr>& rows, const Buffer& out, const std::vector<Buffer>&) {
    auto row = [&](const Expr& i) {
      std::vector<Expr> at = rows;
      at.push_back(i);
      return x(at);
    };
    std::vector<Expr> at = rows;
    at.push_back(IndexVar("o"));
    std::vector<Stmt> all = {heap.Fill(row)};
    if (k < n) all.push_back(heap.Scan(n, row));
    if (k > 1) all.push_back(heap.Sort());
    all.push_back(Loop("o", k, MakeStmt(Store{out, at, At(heap.places(), IndexVar("o"))})));
    return MakeSeq(std::move(all));
  };
  Tensor t = te::Program(name, Without(te::NaturalAxes(x.shape()), 1), {x}, shape, kPlace, heap.Scratch(), program);
  return te::Annotated(t, kProgram, 1);
}

Tensor Scatter(const std::string& name, const Tensor& data, const Tensor& updates, const Tensor& indices, int axis,
               std::optional<te::Combiner> combiner) {
  CHECK(axis >= 0 && axis < data.rank() && updates.rank() == data.rank() && indices.rank() == data.rank()) << name;
  CHECK(updates.dtype() == data.dtype() && indices.dtype().IsInt()) << name;
  std::vector<te::Axis> all = te::NaturalAxes(data.shape());
  te::Part copy{.suffix = "_copy", .axes = all, .store = te::AxisVars(all), .body = data(te::AxisVars(all))};
  te::Part update{.suffix = "_update", .combiner = combiner, .in_place = true};
  for (int d = 0; d < data.rank(); ++d) {
    CHECK(d == axis || updates.shape()[d] <= data.shape()[d]) << name;
    te::Axis moved{all[d].name, updates.shape()[d]};
    (d == axis ? update.reduce_axes : update.axes).push_back(moved);
  }
  const std::vector<Expr> at = te::AxisVars(all);
  update.store = at;
  update.store[axis] =
      Subscript(indices(te::BroadcastIndices(at, updates.shape(), indices.shape())), data.shape()[axis]);
  update.body = updates(at);
  update.annotations[kOrderedUpdate] = 1;
  std::vector<Tensor> inputs;
  for (const Tensor& t : {data, updates, indices}) {
    if (!t->splat) inputs.push_back(t);
  }
  return te::Assemble(name, data.shape(), inputs, {copy, update});
}

Tensor Cumulate(const std::string& name, const Tensor& x, int axis, te::Combiner combiner, bool exclusive,
                bool reverse) {
  CHECK(axis >= 0 && axis < x.rank() && (combiner == te::Combiner::kSum || combiner == te::Combiner::kProd)) << name;
  const int64_t n = x.shape()[axis];
  const bool sum = combiner == te::Combiner::kSum;
  const Buffer own = Buffer::Make(name, x.dtype(), {x.shape().begin(), x.shape().end()});
  std::vector<te::Axis> all = te::NaturalAxes(x.shape());
  const std::vector<Expr> at = te::AxisVars(all);
  auto moved = [&](const Expr& i) {
    std::vector<Expr> to = at;
    to[axis] = i;
    return to;
  };
  te::Part copy{.suffix = "_copy", .axes = all, .store = at, .body = x(at)};
  if (exclusive) {
    const Expr before = reverse ? at[axis] + 1 : at[axis] - 1;
    const Expr first = ConstOf(sum ? 0 : 1, x.dtype());
    copy.body = MakeSelect(Eq(at[axis], reverse ? n - 1 : 0), first, x(moved(Max(0, Min(before, n - 1)))));
  }
  std::vector<te::Part> parts = {copy};
  if (n > 1) {  // combines element t into element t + 1, counted from the end if `reverse`
    te::Part update{.suffix = "_update", .in_place = true};
    for (int d = 0; d < x.rank(); ++d) (d == axis ? update.reduce_axes : update.axes).push_back(all[d]);
    update.reduce_axes[0].extent = n - 1;
    const Expr from = reverse ? n - 1 - at[axis] : at[axis], to = reverse ? n - 2 - at[axis] : at[axis] + 1;
    const Expr old = MakeLoad(own, moved(from)), now = MakeLoad(own, moved(to));
    update.store = moved(to);
    update.body = sum ? old + now : old * now;
    update.annotations[kOrderedUpdate] = 1;
    parts.push_back(update);
  }
  return te::Assemble(name, x.shape(), {x}, parts, own);
}

Tensor GatherSum(const std::string& name, const Tensor& x, const Tensor& weights, const Tensor& indices) {
  CHECK(x.rank() == 3 && weights.shape() == indices.shape() && weights.rank() == 3) << name;
  const int64_t rows = x.shape()[1], channels = x.shape()[2];
  std::vector<te::Axis> axes = {{"b", x.shape()[0]}, {"p", weights.shape()[1]}};
  if (channels > 1) axes.push_back({"c", channels});
  return te::Reduce(name, axes, {{"t", weights.shape()[2]}}, te::Combiner::kSum, {x, weights, indices},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      const std::vector<Expr> tap = {i[0], i[1], r[0]};
                      Expr row = Max(0, Min(AsIndex(indices(tap)), rows - 1));
                      return weights(tap) * x({i[0], row, channels > 1 ? i[2] : Expr(0)});
                    },
                    {x.shape()[0], weights.shape()[1], channels});
}

Tensor SelectBoxes(const std::string& name, const Tensor& boxes, const Tensor& scores, const Tensor& order,
                   const Suppression& s) {
  CHECK(boxes.rank() == 3 && scores.rank() == 3 && order.shape() == scores.shape() && s.most >= 1 && s.rows >= 1)
      << name;
  const int64_t batches = scores.shape()[0], classes = scores.shape()[1], n = scores.shape()[2];
  const DType dtype = boxes.dtype();
  auto place = [](const char* buffer, int64_t size) { return Buffer::Make(buffer, kPlace, {size}); };
  const Buffer taken = place("taken", s.most), count = place("count", 1), total = place("total", 1),
               box = place("box", 1), free = place("free", 1);
  auto program = [&](const std::vector<Expr>&, const Buffer& out, const std::vector<Buffer>&) {
    const Expr b = IndexVar("b"), c = IndexVar("c"), candidate = At(box, 0), before = At(taken, IndexVar("t"));
    const Expr one = ConstOf(1, kPlace), zero = ConstOf(0, kPlace), half = ConstOf(0.5, dtype),
               none = ConstOf(0, dtype);
    auto row = [&](const Expr& r, const Expr& field, const Expr& value) {
      return MakeStmt(Store{out, {r, field}, value});
    };
    // Returns the least and the greatest coordinate of a box along a dimension.
    auto ends = [&](const Expr& i, int d) -> std::pair<Expr, Expr> {
      const Expr u = boxes({b, AsIndex(i), Expr(d)}), v = boxes({b, AsIndex(i), Expr(d + 2)});
      if (s.centers) return {u - v * half, u + v * half};
      return {Min(u, v), Max(u, v)};
    };
    auto length = [](const std::pair<Expr, Expr>& e) { return e.second - e.first; };
    Expr common = ConstOf(1, dtype), mine = common, theirs = common;
    for (int d : {0, 1}) {
      const auto p = ends(candidate, d), q = ends(before, d);
      common = common * Max(none, Min(p.second, q.second) - Max(p.first, q.first));
      mine = mine * length(p);
      theirs = theirs * length(q);
    }
    const Expr overlaps =
        And(And(none < mine, none < theirs), ConstOf(s.overlap, dtype) < common / (mine + theirs - common));
    const Expr counted = MakeCast(kPlace, IndexVar("t")) < At(count, 0);
    Stmt compare = Loop("t", s.most, When(counted, {When(overlaps, {Set(free, 0, zero)})}));
    const Expr to = AsIndex(At(total, 0));
    Stmt take =
        When(Eq(At(free, 0), one), {Set(taken, AsIndex(At(count, 0)), candidate), row(to, 0, MakeCast(kPlace, b)),
                                    row(to, 1, MakeCast(kPlace, c)), row(to, 2, candidate),
                                    Set(count, 0, At(count, 0) + one), Set(total, 0, At(total, 0) + one)});
    Expr wanted = And(At(count, 0) < ConstOf(static_cast<double>(s.most), kPlace),
                      At(total, 0) < ConstOf(static_cast<double>(s.rows), kPlace));
    if (s.least_score)
      wanted = And(wanted, ConstOf(*s.least_score, scores.dtype()) < scores({b, c, AsIndex(candidate)}));
    Stmt each = MakeSeq({Set(box, 0,
                             Max(zero, Min(MakeCast(kPlace, order({b, c, IndexVar("j")})),
                                           ConstOf(static_cast<double>(n - 1), kPlace)))),
                         When(wanted, {Set(free, 0, one), compare, take})});
    Stmt all = Loop("b", batches, Loop("c", classes, MakeSeq({Set(count, 0, zero), Loop("j", n, each)})));
    Stmt clear = Loop("r", s.rows, Loop("f", 3, row(IndexVar("r"), IndexVar("f"), ConstOf(-1, kPlace))));
    return MakeSeq({clear, Set(total, 0, zero), all});
  };
  Tensor t = te::Program(name, {{"all", 1}}, {boxes, scores, order}, {s.rows, 3}, kPlace,
                         {taken, count, total, box, free}, program);
  return te::Annotated(t, kProgram, 1);
}

Tensor Determinant(const std::string& name, const Tensor& x) {
  CHECK(x.rank() >= 2 && x.shape().back() == x.shape()[x.rank() - 2]) << name;
  const int64_t n = x.shape().back();
  const Shape shape(x.shape().begin(), x.shape().end() - 2);
  const DType dtype = x.dtype();
  const Buffer a = Buffer::Make("a", dtype, {n * n}), product = Buffer::Make("product", dtype, {1}),
               pivot = Buffer::Make("pivot", kPlace, {1}), kept = Buffer::Make("kept", dtype, {1});
  auto program = [&](const std::vector<Expr>& batch, const Buffer& out, const std::vector<Buffer>&) {
    auto element = [&](const Expr& i, const Expr& j) { return At(a, i * n + j); };
    auto set = [&](const Expr& i, const Expr& j, const Expr& value) { return Set(a, i * n + j, value); };
    std::vector<Expr> at = batch;
    at.push_back(IndexVar("i"));
    at.push_back(IndexVar("j"));
    Stmt copy = Loop("i", n, Loop("j", n, set(IndexVar("i"), IndexVar("j"), x(at))));
    Expr column = IndexVar("k"), p = AsIndex(At(pivot, 0)), r = IndexVar("r"), s = IndexVar("s"), e = IndexVar("e"),
         f = IndexVar("f");
    Stmt search =
        Loop("r", n,
             When(And(column < r, MakeCall(Op::kAbs, {element(p, column)}) < MakeCall(Op::kAbs, {element(r, column)})),
                  {Set(pivot, 0, MakeCast(kPlace, r))}));
    Stmt exchange = Loop(
        "s", n, MakeSeq({Set(kept, 0, element(column, s)), set(column, s, element(p, s)), set(p, s, At(kept, 0))}));
    Stmt turn = When(Not(Eq(p, column)), {exchange, Set(product, 0, -At(product, 0))});
    Expr diagonal = element(column, column);
    Stmt eliminate =
        Loop("e", n,
             When(column < e, {Set(kept, 0, element(e, column) / diagonal),
                               Loop("f", n, set(e, f, element(e, f) - At(kept, 0) * element(column, f)))}));
    Stmt step =
        MakeSeq({Set(pivot, 0, MakeCast(kPlace, column)), search, turn, Set(product, 0, At(product, 0) * diagonal),
                 When(Not(Eq(diagonal, ConstOf(0, dtype))), {eliminate})});
    return MakeSeq(
        {copy, Set(product, 0, ConstOf(1, dtype)), Loop("k", n, step), MakeStmt(Store{out, batch, At(product, 0)})});
  };
  Tensor t =
      te::Program(name, Without(te::NaturalAxes(x.shape()), 2), {x}, shape, dtype, {a, product, pivot, kept}, program);
  return te::Annotated(t, kProgram, 1);
}

}  // namespace autotune::topi
