// close_gaps: shrinks buffers of one thread that have gaps between the used elements. If a thread uses only the
// elements i * period + j with j < width of a tile, the elements between them belong to other threads. The thread's
// copy of the tile then needs only the elements i * width + j.
//
//   local c: f32[1, 36] register;  c[0, g * 32 + l]  (g < 2, l < 4)  ->  local c: f32[1, 8];  c[0, g * 4 + l]
#include <algorithm>
#include <optional>

#include "ir/linear_form.h"
#include "ir/loop_range.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// An index as a sum over loops.
struct Sum {
  struct Term {
    Name var;
    int64_t coefficient, extent;
  };
  std::vector<Term> terms;
  int64_t constant = 0;

  int64_t Most() const {
    int64_t most = constant;
    for (const Term& t : terms) most += t.coefficient * (t.extent - 1);
    return most;
  }
  // Returns the sum without the terms that are multiples of the period.
  Sum Low(int64_t period) const {
    Sum low{{}, constant % period};
    for (const Term& t : terms) {
      if (t.coefficient % period != 0) low.terms.push_back(t);
    }
    return low;
  }
};

std::optional<Sum> SumOf(const Expr& index, const Ranges& loops) {
  const LinearForm form = ToLinear(index);
  if (form.Rest() || form.Huge() || form.constant < 0) return std::nullopt;
  Sum sum{{}, form.constant};
  for (const auto& [var, coefficient] : form.Variables()) {
    const int64_t* extent = ExtentOf(loops, var);
    if (!extent || coefficient < 0) return std::nullopt;
    sum.terms.push_back({var, coefficient, *extent});
  }
  return sum;
}

// All subscripts of one dimension of a buffer.
class Dimension {
 public:
  bool Add(const Expr& index, const Ranges& loops) {
    std::optional<Sum> sum = SumOf(index, loops);
    if (!sum) return false;
    sums_.push_back(std::move(*sum));
    return true;
  }

  // Period and width of the pieces; nothing if there are no gaps.
  struct Pieces {
    int64_t period, width;
  };
  std::optional<Pieces> Find() const {
    std::optional<Pieces> found;  // the pieces of the shortest period
    for (const Sum& sum : sums_) {
      for (const Sum::Term& term : sum.terms) {
        if (found && term.coefficient >= found->period) continue;
        int64_t width = 1;
        for (const Sum& other : sums_) width = std::max(width, other.Low(term.coefficient).Most() + 1);
        if (width < term.coefficient) found = Pieces{term.coefficient, width};
      }
    }
    return found;
  }

  int64_t Extent() const {
    int64_t most = 0;
    for (const Sum& sum : sums_) most = std::max(most, sum.Most());
    return most + 1;
  }

  void Close(const Pieces& pieces) {
    for (Sum& sum : sums_) sum = Closed(sum, pieces);
  }

  static Sum Closed(const Sum& sum, const Pieces& pieces) {
    Sum closed{{}, sum.constant / pieces.period * pieces.width + sum.constant % pieces.period};
    for (Sum::Term t : sum.terms) {
      if (t.coefficient % pieces.period == 0) t.coefficient = t.coefficient / pieces.period * pieces.width;
      closed.terms.push_back(t);
    }
    return closed;
  }

 private:
  std::vector<Sum> sums_;
};

class Closer {
 public:
  Stmt Run(const Stmt& s) {
    const Alloc* alloc = s.As<Alloc>();
    if (const For* loop = s.As<For>()) {
      around_.push_back({loop->var, AsInt(loop->extent) ? *AsInt(loop->extent) : kUnknown});
      Stmt body = Run(loop->body);
      around_.pop_back();
      return MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, std::move(body)});
    }
    if (!alloc)
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child); }, nullptr);
    const Scope scope = alloc->buffer->scope;
    const bool own = scope == Scope::kRegister || scope == Scope::kLocal;
    return own ? Close(alloc->buffer, Run(alloc->body)) : MakeStmt(Alloc{alloc->buffer, Run(alloc->body)});
  }

 private:
  static constexpr int64_t kUnknown = kHuge;

  // Called as f(indices, loops around) for each access to the buffer in `s`, in order. Returns the new indices.
  using OnAccess = std::function<std::vector<Expr>(const std::vector<Expr>&, const Ranges&)>;
  static Stmt MapAccesses(const Stmt& s, const Buffer& from, const Buffer& to, Ranges& loops, const OnAccess& f) {
    auto map_loads = [&](const Expr& e) {
      return RewriteExpr(e, [&](const Expr& x) {
        const Load* load = x.As<Load>();
        return load && load->buffer->name == from->name ? MakeLoad(to, f(load->indices, loops)) : x;
      });
    };
    if (const For* loop = s.As<For>()) {
      const Expr extent = map_loads(loop->extent);
      loops.push_back({loop->var, AsInt(loop->extent) ? *AsInt(loop->extent) : kUnknown});
      Stmt body = MapAccesses(loop->body, from, to, loops, f);
      loops.pop_back();
      return MakeStmt(For{loop->var, extent, loop->kind, loop->annotations, std::move(body)});
    }
    Stmt mapped = MapChildren(
        s, [&](const Stmt& child) { return MapAccesses(child, from, to, loops, f); }, map_loads);
    const Store* store = mapped.As<Store>();
    if (!store || !(store->buffer->name == from->name)) return mapped;
    return MakeStmt(Store{to, f(store->indices, loops), store->value});
  }

  Stmt Close(const Buffer& buffer, const Stmt& body) {
    const size_t rank = buffer->shape.size();
    std::vector<Dimension> dimensions(rank);
    std::vector<bool> known(rank, true);
    Ranges loops = around_;
    MapAccesses(body, buffer, buffer, loops, [&](const std::vector<Expr>& indices, const Ranges& inside) {
      for (size_t d = 0; d < rank; ++d) known[d] = known[d] && dimensions[d].Add(indices[d], inside);
      return indices;
    });
    std::vector<Expr> shape = buffer->shape;
    std::vector<std::vector<Dimension::Pieces>> pieces(rank);
    bool any = false;
    for (size_t d = 0; d < rank; ++d) {
      while (std::optional<Dimension::Pieces> found = known[d] ? dimensions[d].Find() : std::nullopt) {
        dimensions[d].Close(*found);
        pieces[d].push_back(*found);
        shape[d] = Expr(dimensions[d].Extent());
        any = true;
      }
    }
    if (!any) return MakeStmt(Alloc{buffer, body});
    const Buffer small = WithShape(buffer, std::move(shape));
    Stmt moved = MapAccesses(body, buffer, small, loops, [&](std::vector<Expr> indices, const Ranges& inside) {
      for (size_t d = 0; d < rank; ++d) {
        if (pieces[d].empty()) continue;
        Sum sum = *SumOf(indices[d], inside);
        for (const Dimension::Pieces& p : pieces[d]) sum = Dimension::Closed(sum, p);
        LinearForm form(sum.constant);
        for (const Sum::Term& t : sum.terms) form.Add(IndexVar(t.var), t.coefficient);
        indices[d] = form.ToExpr();
      }
      return indices;
    });
    return MakeStmt(Alloc{small, std::move(moved)});
  }

  Ranges around_;
};

}  // namespace

Result<PrimFunc> CloseGaps(const PrimFunc& f, PassEnv&) { return WithBody(f, Closer().Run(f.body)); }

}  // namespace autotune
