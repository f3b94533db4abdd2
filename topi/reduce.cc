#include "topi/reduce.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/dot.h"
#include "support/check.h"
#include "support/integer.h"

namespace autotune::topi {
namespace {

// Number of elements of a row that are combined side by side. These constants are chosen, not derived. Random odd
// shapes test them (bench/odd_shapes.py), so far on AVX2 and AVX-512, in f32.
// In f32 these lanes take 12 vector registers of 128 bits, which every target has. In f64 they take 24, so SSE spills.
constexpr int64_t kMostLanes = 48;
constexpr int64_t kLanes = 32;      // used if no number up to kMostLanes divides the row
constexpr int64_t kFewLanes = 16;   // used for rows shorter than two steps of kLanes, since fewer lanes combine faster
constexpr int64_t kLanesLeft = 4;   // lanes that the last step combines one by one: one vector of 128 bits in f32
constexpr int64_t kMostFolded = 8;  // most lanes that are combined into one in one step; longer loops are not unrolled
constexpr int64_t kFewRows = 4;     // most streams of distant rows that hardware prefetches at a time
// Elements of a row (two pages of f32) that is read as fast alone as together with its neighbours.
constexpr int64_t kLongRow = 2048;
constexpr int64_t kFewestSteps = 2;  // fewest steps along a row for which lanes are used

// The form of the rows that are reduced in lanes. A row has `n` contiguous elements and `columns` results; element
// `at` belongs to result at % columns.
struct RowForm {
  std::vector<te::Axis> kept;   // one row for each point of them
  std::vector<te::Axis> outer;  // rows that are combined
  int64_t n = 1, columns = 1;
  int64_t whole = 16;  // the number of lanes is a multiple of it
  Shape shape;         // logical shape of the result
};

int64_t LanesOf(int64_t n, int64_t columns, int64_t whole) {
  const int64_t step = std::lcm(columns, whole);
  for (int64_t lanes = kMostLanes / step * step; lanes > 0; lanes -= step) {
    if (n % lanes == 0) return lanes;
  }
  return std::max(step, (n < 2 * kLanes ? kFewLanes : kLanes) / step * step);  // the rest of the row is a tail
}

std::vector<te::Axis> With(std::vector<te::Axis> axes, const te::Axis& last) {
  axes.push_back(last);
  return axes;
}

std::vector<Expr> With(std::vector<Expr> index, const Expr& last) {
  index.push_back(last);
  return index;
}

// Combines the elements of each row in lanes, which become vectors: element k * lanes + l goes to lane l. Then combines
// the lanes.
Tensor RowsReduced(const std::string& name, const RowForm& form, te::Combiner combiner,
                   const std::vector<Tensor>& inputs, const RowFn& fn) {
  const int64_t n = form.n, lanes = LanesOf(n, form.columns, form.whole);
  const size_t rank = form.kept.size();
  auto kept_of = [&](const std::vector<Expr>& i) {
    return std::vector<Expr>(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(rank));
  };
  Tensor part = te::Reduce(
      name + "_lanes", With(form.kept, {"l", lanes}), With(form.outer, {"k", CeilDiv(n, lanes)}), combiner, inputs,
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        Expr at = r.back() * lanes + i[rank];
        Expr element = fn(kept_of(i), {r.begin(), r.end() - 1}, at);
        return n % lanes == 0 ? element : MakeSelect(at < n, element, te::IdentityOf(combiner, element.dtype()));
      });
  auto fold = [&](const std::string& block, int64_t left, const Shape& shape) {
    return te::Reduce(
        block, left == 1 ? form.kept : With(form.kept, {"c", left}), {{"l", ConstShape(part->buffer).back() / left}},
        combiner, {part},
        [&, wide = part](const std::vector<Expr>& i, const std::vector<Expr>& r) {
          return wide.AtAxes(With(kept_of(i), left == 1 ? r[0] : r[0] * left + i[rank]));
        },
        shape);
  };
  int64_t left = kLanesLeft;
  while (lanes / left > kMostFolded) left *= 2;
  if (form.columns == 1 && lanes > left) part = fold(name + "_fold", left, {});
  return fold(name, form.columns, form.shape);
}

// Reduces fn over the dimensions `axes` of x, in one block. fn gets the full subscripts of an element of x.
Tensor Reduced(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
               const std::vector<Tensor>& inputs, const std::function<Expr(const std::vector<Expr>&)>& fn) {
  std::vector<te::Axis> kept, reduced, natural = te::NaturalAxes(x.shape());
  Shape shape = x.shape();
  auto is_reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
  for (int d = 0; d < x.rank(); ++d) {
    (is_reduced(d) ? reduced : kept).push_back(natural[d]);
    if (is_reduced(d)) shape[d] = 1;
  }
  CHECK(!axes.empty() && reduced.size() == axes.size()) << name << ": axes out of range or twice";
  return te::Reduce(
      name, kept, reduced, combiner, inputs,
      [&](const std::vector<Expr>& k, const std::vector<Expr>& r) {
        std::vector<Expr> index;
        size_t next_kept = 0, next_reduced = 0;
        for (int d = 0; d < x.rank(); ++d) index.push_back(is_reduced(d) ? r[next_reduced++] : k[next_kept++]);
        return fn(index);
      },
      shape);
}

// Neighbouring dimensions that are all reduced or all kept, from `first` on.
struct Group {
  bool reduced = false;
  int first = 0;
  int64_t extent = 1;
};

std::vector<Group> GroupsOf(const Shape& shape, const std::vector<int>& axes) {
  std::vector<Group> groups;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (shape[d] == 1) continue;
    bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (groups.empty() || groups.back().reduced != reduced) groups.push_back({reduced, d, 1});
    groups.back().extent *= shape[d];
  }
  return groups;
}

// Reduces in lanes. The dimensions from `first` on form a row, whose element e belongs to result e % columns.
Tensor TailReduced(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                   int first, int64_t columns, int64_t whole) {
  const Shape& shape = x.shape();
  const Shape tail(shape.begin() + first, shape.end());
  RowForm form{.n = te::Product(tail), .columns = columns, .whole = whole, .shape = shape};
  std::vector<te::Axis> natural = te::NaturalAxes(shape);
  std::vector<bool> reduced(shape.size(), false);
  for (int d : axes) {
    reduced[d] = true;
    form.shape[d] = 1;
  }
  for (int d = 0; d < first; ++d) (reduced[d] ? form.outer : form.kept).push_back(natural[d]);
  return RowsReduced(name, form, combiner, {x},
                     [&](const std::vector<Expr>& kept, const std::vector<Expr>& outer, const Expr& at) {
                       std::vector<Expr> index;
                       size_t next_kept = 0, next_outer = 0;
                       for (int d = 0; d < first; ++d)
                         index.push_back(reduced[d] ? outer[next_outer++] : kept[next_kept++]);
                       for (Expr& e : te::ReshapeIndices({at}, {te::Product(tail)}, tail))
                         index.push_back(std::move(e));
                       return x(index);
                     });
}

// Returns true if the axes of x are not its dimensions, but the last axis is the last dimension.
bool IsRegrouped(const Tensor& x) {
  const Shape stored = x->StoredShape();
  return !stored.empty() && stored != x.shape() && x.rank() > 0 && stored.back() == x.shape().back();
}

// Reduces the last dimension; the nest's axes are the other axes of x.
Tensor LastReduced(const std::string& name, const Tensor& x, te::Combiner combiner, int64_t whole) {
  const int64_t n = x.shape().back();
  RowForm form{.kept = x->axes, .n = n, .whole = whole, .shape = x.shape()};
  form.kept.pop_back();
  form.shape.back() = 1;
  auto element = [&](const std::vector<Expr>& kept, const Expr& at) { return x.AtAxes(With(kept, at)); };
  if (n >= kShortestRow) {
    return RowsReduced(
        name, form, combiner, {x},
        [&](const std::vector<Expr>& kept, const std::vector<Expr>&, const Expr& at) { return element(kept, at); });
  }
  return te::Reduce(
      name, form.kept, {{"k", n}}, combiner, {x},
      [&](const std::vector<Expr>& kept, const std::vector<Expr>& r) { return element(kept, r[0]); }, form.shape);
}

// Reduces dimensions before `first`. The dimensions from `first` on are kept, and are one axis of the nest, along which
// memory is contiguous.
Tensor OuterReduced(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                    int first) {
  const Shape& shape = x.shape();
  const Shape tail(shape.begin() + first, shape.end());
  Shape out = shape;
  std::vector<te::Axis> kept, outer, natural = te::NaturalAxes(shape);
  std::vector<bool> reduced(shape.size(), false);
  for (int d : axes) {
    reduced[d] = true;
    out[d] = 1;
  }
  for (int d = 0; d < first; ++d) (reduced[d] ? outer : kept).push_back(natural[d]);
  return te::Reduce(
      name, With(kept, {"c", te::Product(tail)}), outer, combiner, {x},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> index;
        size_t next_kept = 0, next_outer = 0;
        for (int d = 0; d < first; ++d) index.push_back(reduced[d] ? r[next_outer++] : i[next_kept++]);
        for (Expr& e : te::ReshapeIndices({i.back()}, {te::Product(tail)}, tail)) index.push_back(std::move(e));
        return x(index);
      },
      out);
}

}  // namespace

Expr Term(const Expr& a, const Expr& b) {
  const DType type = SumType(a.dtype(), b.dtype());
  const auto factor = [&](const Expr& element) { return element.dtype() == type ? element : MakeCast(type, element); };
  return factor(a) * factor(b);
}

Tensor ReduceAxes(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                  int64_t whole) {
  const std::vector<Group> groups = GroupsOf(x.shape(), axes);
  auto direct = [&] { return Reduced(name, x, axes, combiner, {x}, [&](const std::vector<Expr>& i) { return x(i); }); };
  CHECK(std::set<int>(axes.begin(), axes.end()).size() == axes.size()) << name << ": an axis twice";
  if (groups.empty()) return direct();
  if (axes.size() == 1 && axes[0] + 1 == x.rank() && IsRegrouped(x)) return LastReduced(name, x, combiner, whole);
  const Group& last = groups.back();
  int64_t outer = 1;  // number of reduced elements in front of the last group
  for (const Group& group : groups) outer *= group.reduced && &group != &last ? group.extent : 1;
  if (last.reduced) {
    const bool far = outer > kFewRows && last.extent < kLongRow;
    if (outer > 1 && (far || last.extent < kShortestRow)) {
      std::vector<int> front, back;
      for (int d : axes) (d < last.first ? front : back).push_back(d);
      Tensor partial = ReduceAxes(name + "_outer", x, front, combiner, whole);
      return ReduceAxes(name, partial, back, combiner, whole);
    }
    if (last.extent >= kShortestRow) return TailReduced(name, x, axes, combiner, last.first, 1, whole);
    return direct();
  }
  if (outer == 1) return direct();
  const Group& before = groups[groups.size() - 2];
  if (last.extent < kShortestRow) {
    if (before.extent * last.extent < kFewestSteps * std::lcm(last.extent, whole)) return direct();
    return TailReduced(name, x, axes, combiner, before.first, last.extent, whole);
  }
  return x.shape().back() == last.extent ? direct() : OuterReduced(name, x, axes, combiner, last.first);
}

Tensor SumRows(const std::string& name, const std::vector<te::Axis>& kept, const std::vector<te::Axis>& outer,
               int64_t n, const std::vector<Tensor>& inputs, const RowFn& fn, const Shape& shape) {
  CHECK(n >= kShortestRow && !inputs.empty()) << name;
  return RowsReduced(name, {.kept = kept, .outer = outer, .n = n, .shape = shape}, te::Combiner::kSum, inputs, fn);
}

Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last) {
  CHECK(axis >= 0 && axis < x.rank()) << name;
  const DType index_type = DType::Int(64);
  Tensor best = ReduceAxes(name + "_best", x, {axis}, largest ? te::Combiner::kMax : te::Combiner::kMin);
  int64_t end = x.shape()[axis] - 1;
  return Reduced(name, x, {axis}, last ? te::Combiner::kMax : te::Combiner::kMin, {x, best},
                 [&](const std::vector<Expr>& i) {
                   std::vector<Expr> at = i;
                   at[axis] = 0;
                   Expr other = IntConst(last ? 0 : end, index_type);
                   return MakeSelect(Eq(x(i), best(at)), MakeCast(index_type, i[axis]), other);
                 });
}

}  // namespace autotune::topi
