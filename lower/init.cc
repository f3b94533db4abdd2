#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

struct Located {
  const Block* block;
  std::vector<const For*> path;  // loops between the reduction loop and the block, outermost first
};

// Finds the blocks with an init inside s. Between s and such a block there are only loops.
void FindInits(const Stmt& s, std::vector<const For*>& path, std::vector<Located>& found) {
  if (const Block* block = s.As<Block>()) {
    if (block->init) found.push_back({block, path});
  } else if (const For* loop = s.As<For>()) {
    path.push_back(loop);
    FindInits(loop->body, path, found);
    path.pop_back();
  } else if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) FindInits(child, path, found);
  }
}

bool UsedBy(const Block& block, IterKind kind, const Name& var) {
  return std::any_of(block.iters.begin(), block.iters.end(),
                     [&](const Iter& iter) { return iter.kind == kind && UsesVar(iter.binding, var); });
}

// Returns true if a block other than `block` inside s touches what block.init writes.
bool OthersTouch(const Stmt& s, const Block& block) {
  std::set<Name> written;
  Walk(block.init, [&](const Stmt& x) {
    if (const Store* store = x.As<Store>()) written.insert(store->buffer->name);
    return true;
  });
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const Block* other = x.As<Block>();
    if (other && !(other->name == block.name)) {
      found |= TouchesBuffer(x, [&](const Buffer& b) { return written.contains(b->name); });
    }
    return !found && !other;
  });
  return found;
}

// Removes the init of the block called `name`.
Stmt WithoutInit(const Stmt& s, const Name& name) {
  return RewriteStmt(s, [&](const Stmt& x) {
    const Block* block = x.As<Block>();
    if (!block || !(block->name == name)) return x;
    Block copy = *block;
    copy.init = Stmt();
    return MakeStmt(std::move(copy));
  });
}

class Decomposer {
 public:
  explicit Decomposer(const Stmt& root) {
    Walk(root, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) names_.insert(loop->var);
      if (const Block* block = s.As<Block>()) {
        names_.insert(block->name);
        for (const Iter& iter : block->iters) names_.insert(iter.var);
      }
      return true;
    });
  }

  Stmt Run(const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop) {
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child); }, nullptr);
    }
    std::vector<Located> found;
    std::vector<const For*> path;
    FindInits(loop->body, path, found);
    std::vector<Stmt> result;
    Stmt body = loop->body;
    for (const Located& located : found) {
      if (Stmt nest = InitNest(*loop, located)) {
        result.push_back(nest);
        body = WithoutInit(body, located.block->name);
      }
    }
    result.push_back(MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, Run(body)}));
    return MakeSeq(std::move(result));
  }

 private:
  Name Fresh(const Name& name) {
    std::string text = name.str() + "_init";
    for (int i = 0; names_.contains(text); ++i) text = name.str() + "_init" + std::to_string(i);
    names_.insert(text);
    return text;
  }

  // Returns the loop nest that initialises the result of the block before the reduction loop `loop`. Returns null if
  // this initialisation cannot be separated from the updates.
  Stmt InitNest(const For& loop, const Located& located) {
    const Block& block = *located.block;
    if (loop.kind == LoopKind::kParallel || UsedBy(block, IterKind::kSpatial, loop.var) ||
        !UsedBy(block, IterKind::kReduce, loop.var) || OthersTouch(loop.body, block)) {
      return Stmt();
    }
    VarMap first{{loop.var, Expr(0)}}, renamed;
    std::vector<For> spatial;
    for (const For* inner : located.path) {
      bool is_spatial = UsedBy(block, IterKind::kSpatial, inner->var);
      if (is_spatial && UsedBy(block, IterKind::kReduce, inner->var)) return Stmt();
      if (is_spatial) {
        Name var = Fresh(inner->var);
        renamed[inner->var] = IndexVar(var);
        spatial.push_back(For{var, inner->extent, inner->kind, inner->annotations, Stmt()});
      } else {
        first[inner->var] = Expr(0);
      }
    }
    Block init;
    init.name = Fresh(block.name);
    VarMap iters;
    for (const Iter& iter : block.iters) {
      Expr binding = Substitute(Substitute(iter.binding, first), renamed);
      if (iter.kind == IterKind::kReduce) {
        if (!IsConst(Analyzer().Simplify(binding), 0)) return Stmt();
        iters[iter.var] = Expr(0);
      } else {
        Name var = Fresh(iter.var);
        iters[iter.var] = IndexVar(var);
        init.iters.push_back({var, IterKind::kSpatial, iter.extent, binding});
      }
    }
    auto map = [&](const Expr& e) { return Substitute(Substitute(Substitute(e, iters), first), renamed); };
    if (block.predicate) init.predicate = Analyzer().Simplify(map(block.predicate));
    if (init.predicate && IsConst(init.predicate, 1)) init.predicate = Expr();
    init.body = Substitute(block.init, iters);
    Stmt nest = MakeStmt(std::move(init));
    for (size_t i = spatial.size(); i-- > 0;) {
      spatial[i].body = nest;
      spatial[i].extent = map(spatial[i].extent);
      nest = MakeStmt(spatial[i]);
    }
    return nest;
  }

  std::set<Name> names_;
};

}  // namespace

Result<PrimFunc> DecomposeInit(const PrimFunc& f, PassEnv&) { return WithBody(f, Decomposer(f.body).Run(f.body)); }

}  // namespace autotune
