#include <algorithm>
#include <map>

#include "schedule/intrinsic.h"
#include "schedule/nested.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// The part of a buffer that corresponds to a parameter of an intrinsic's description. The parameter's dimensions are
// the last dimensions of `buffer`.
struct Place {
  Buffer buffer;
  std::vector<Expr> base;  // offset of the part in each dimension of `buffer`
};

// Returns the strides in elements, or nothing if an extent or a stride is symbolic.
std::optional<std::vector<int64_t>> StridesOf(const Buffer& buffer) {
  if (!HasConstShape(buffer)) return std::nullopt;
  if (buffer->strides.empty()) return autotune::StridesOf(ConstShape(buffer), buffer->dim_align);
  std::vector<int64_t> strides;
  for (const Expr& stride : buffer->strides) {
    if (!AsInt(stride)) return std::nullopt;
    strides.push_back(*AsInt(stride));
  }
  return strides;
}

// Walks a description and a block's body together. They match if their statements are equal, apart from the names and
// kinds of loops, and if each parameter of the description corresponds to one part of a buffer in all iterations.
class Matcher {
 public:
  explicit Matcher(const Name& intrinsic) : what_("intrinsic '" + intrinsic.str() + "'") {}
  const std::map<Name, Place>& places() const { return places_; }

  Status Match(const Stmt& want, const Stmt& got) {
    if (const For* loop = want.As<For>(); loop && got.As<For>()) return MatchLoop(*loop, *got.As<For>());
    if (const Store* store = want.As<Store>(); store && got.As<Store>()) {
      TRY(MatchAccess(store->buffer, store->indices, got.As<Store>()->buffer, got.As<Store>()->indices));
      return MatchValue(store->value, got.As<Store>()->value);
    }
    const Seq *a = want.As<Seq>(), *b = got.As<Seq>();
    if (!a || !b || a->stmts.size() != b->stmts.size()) return Err("the statements are not those of ", what_);
    for (size_t i = 0; i < a->stmts.size(); ++i) TRY(Match(a->stmts[i], b->stmts[i]));
    return {};
  }

 private:
  Status MatchLoop(const For& want, const For& got) {
    if (!autotune::Equal(want.extent, got.extent)) {
      return Err("loop '", got.var, "' must have ", *AsInt(want.extent), " iterations, as in ", what_);
    }
    loops_[want.var] = IndexVar(got.var);
    ranges_.push_back({got.var, *AsInt(want.extent)});
    return Match(want.body, got.body);
  }

  Status MatchValue(const Expr& want, const Expr& got) {
    const Load *a = want.As<Load>(), *b = got.As<Load>();
    if (a && b) return MatchAccess(a->buffer, a->indices, b->buffer, b->indices);
    // Compares the two operations without their operands: gives `want` the operands of `got` and compares the results.
    std::vector<Expr> wanted, given;
    MapChildren(want, [&](const Expr& e) { return wanted.push_back(e), e; });
    MapChildren(got, [&](const Expr& e) { return given.push_back(e), e; });
    bool same = wanted.size() == given.size() && want.dtype() == got.dtype();
    for (size_t i = 0; same && i < wanted.size(); ++i) same = wanted[i].dtype() == given[i].dtype();
    size_t next = 0;
    if (!same || !autotune::Equal(MapChildren(want, [&](const Expr&) { return given[next++]; }), got)) {
      return Err("a value is not computed as in ", what_);
    }
    for (size_t i = 0; i < wanted.size(); ++i) TRY(MatchValue(wanted[i], given[i]));
    return {};
  }

  Status MatchAccess(const Buffer& want, const std::vector<Expr>& at, const Buffer& got,
                     const std::vector<Expr>& indices) {
    if (want->dtype != got->dtype) {
      return Err("buffer '", got->name, "' holds ", got->dtype.Text(), " instead of ", want->dtype.Text(), " as in ",
                 what_);
    }
    if (indices.size() < at.size()) {
      return Err("buffer '", got->name, "' has ", indices.size(), " dimensions, fewer than in ", what_);
    }
    size_t still = indices.size() - at.size();
    if (!want->strides.empty()) {
      std::optional<std::vector<int64_t>> strides = StridesOf(got);
      for (size_t d = 0; d < at.size(); ++d) {
        if (strides && IsConst(want->strides[d], (*strides)[still + d])) continue;
        return Err("buffer '", got->name, "' has other strides than in ", what_);
      }
    }
    Place place{got, {}};
    for (size_t d = 0; d < indices.size(); ++d) {
      LinearForm base = Normalize(indices[d], ranges_);
      if (d >= still) base.Add(Normalize(Substitute(at[d - still], loops_), ranges_), -1);
      place.base.push_back(base.InOrder());
      if (UsesAny(place.base.back(), ranges_) || HasNode<Load>(place.base.back())) {
        return Err("buffer '", got->name, "' is accessed otherwise than in ", what_, " in dimension ", d);
      }
    }
    auto [known, first] = places_.emplace(want->name, place);
    bool same = known->second.buffer->name == got->name;
    for (size_t d = 0; same && d < indices.size(); ++d) same = autotune::Equal(known->second.base[d], place.base[d]);
    if (!first && !same) return Err("parameter '", want->name, "' of ", what_, " would stand for two parts of buffers");
    return {};
  }

  const std::string what_;
  VarMap loops_;
  Ranges ranges_;
  std::map<Name, Place> places_;
};

// Checks that the buffer of an output is not also the buffer of another parameter. The implementation may read and
// write in another order than the description, so with such aliasing their results would differ.
Status CheckApart(const Intrinsic& intrinsic, const std::map<Name, Place>& places) {
  for (const Param& written : intrinsic.description.params) {
    if (written.role != ParamRole::kOutput) continue;
    for (const auto& [name, place] : places) {
      const Buffer& buffer = places.at(written.buffer->name).buffer;
      if (name != written.buffer->name && place.buffer->name == buffer->name) {
        return Err("buffer '", buffer->name, "' would be both '", written.buffer->name, "' and '", name,
                   "' of intrinsic '", intrinsic.name, "'");
      }
    }
  }
  return {};
}

Stmt Placed(const Stmt& s, const std::map<Name, Place>& places) {
  auto moved = [&](const Place& place, const std::vector<Expr>& indices) {
    std::vector<Expr> at = place.base;
    size_t still = at.size() - indices.size();
    for (size_t d = 0; d < indices.size(); ++d) at[still + d] = at[still + d] + indices[d];
    return at;
  };
  return RewriteStmt(
      s,
      [&](const Stmt& x) {
        const Store* store = x.As<Store>();
        if (!store) return x;
        const Place& place = places.at(store->buffer->name);
        return MakeStmt(Store{place.buffer, moved(place, store->indices), store->value});
      },
      [&](const Expr& x) {
        const Load* load = x.As<Load>();
        if (!load) return x;
        const Place& place = places.at(load->buffer->name);
        return MakeLoad(place.buffer, moved(place, load->indices));
      });
}

}  // namespace

// Legal for a block that blockize made, or for a loop that blockize accepts, if its loops and stores match the
// intrinsic's description.
Status ApplyStep(State& state, Tensorize& step) {
  const Intrinsic* intrinsic = FindIntrinsic(step.intrinsic);
  if (!intrinsic) return Err("there is no intrinsic '", step.intrinsic, "'");
  Name name = step.target;
  if (FindLoop(state.func.body, step.target).ok()) {
    Blockize blockize{step.target, step.results};
    TRY(ApplyStep(state, blockize));
    step.results = blockize.results;
    name = step.results.names[0];
  } else {
    if (!FindBlock(state.func.body, step.target).ok()) return Err("there is no block or loop '", step.target, "'");
    step.results = TRY(ResultNames(step.results.names, {}));
  }
  Path path = TRY(FindBlock(state.func.body, name));
  Block block = path.block();
  Matcher matcher(step.intrinsic);
  TRY(matcher.Match(WithoutBlocks(intrinsic->description.body), block.body));
  TRY(CheckApart(*intrinsic, matcher.places()));
  FreshVars fresh(state.func);
  block.body = Placed(RenameLoops(WithoutBlocks(intrinsic->implementation.body), fresh), matcher.places());
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(block)));
  return {};
}

}  // namespace autotune::schedule
