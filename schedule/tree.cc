#include "schedule/tree.h"

#include <algorithm>

#include "ir/combiner.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

bool FindPath(const Stmt& s, const std::function<bool(const Stmt&)>& is_target, std::vector<Stmt>& nodes) {
  nodes.push_back(s);
  if (is_target(s)) return true;
  if (const For* loop = s.As<For>()) {
    if (FindPath(loop->body, is_target, nodes)) return true;
  } else if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) {
      if (FindPath(child, is_target, nodes)) return true;
    }
  } else if (const If* branch = s.As<If>()) {
    if (FindPath(branch->then_body, is_target, nodes)) return true;
    if (branch->else_body && FindPath(branch->else_body, is_target, nodes)) return true;
  }
  nodes.pop_back();
  return false;
}

void VisitBlocks(const Stmt& s, std::vector<const For*>& loops, const BlockVisitor& f) {
  if (const For* loop = s.As<For>()) {
    loops.push_back(loop);
    VisitBlocks(loop->body, loops, f);
    loops.pop_back();
  } else if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) VisitBlocks(child, loops, f);
  } else if (const Block* block = s.As<Block>()) {
    f(*block, loops);
  } else if (const If* branch = s.As<If>()) {
    VisitBlocks(branch->then_body, loops, f);
    if (branch->else_body) VisitBlocks(branch->else_body, loops, f);
  }
}

Stmt RewriteBlocksIn(const Stmt& s, Ranges& inner, const BlockRewriter& f) {
  if (const For* loop = s.As<For>()) {
    const int64_t* extent = AsInt(loop->extent);
    if (extent) inner.push_back({loop->var, *extent});
    Stmt body = RewriteBlocksIn(loop->body, inner, f);
    if (extent) inner.pop_back();
    if (body.Same(loop->body)) return s;
    return IsEmpty(body) ? body : WithBody(*loop, std::move(body));
  }
  if (const Block* block = s.As<Block>()) {
    Stmt changed = f(*block, inner);
    return changed ? changed : s;
  }
  return MapChildren(
      s, [&](const Stmt& child) { return RewriteBlocksIn(child, inner, f); }, nullptr);
}

template <class OnLoop, class OnBlock>
void Scan(const Stmt& s, OnLoop&& on_loop, OnBlock&& on_block) {
  if (const For* loop = s.As<For>()) {
    on_loop(*loop);
    Scan(loop->body, on_loop, on_block);
  } else if (const Seq* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) Scan(child, on_loop, on_block);
  } else if (const Block* block = s.As<Block>()) {
    on_block(*block);
  } else if (const If* branch = s.As<If>()) {
    Scan(branch->then_body, on_loop, on_block);
    if (branch->else_body) Scan(branch->else_body, on_loop, on_block);
  }
}

void CollectVars(const PrimFunc& func, std::vector<Name>& used) {
  Scan(
      func.body, [&](const For& loop) { used.push_back(loop.var); },
      [&](const Block& block) {
        for (const Iter& iter : block.iters) used.push_back(iter.var);
        if (block.body.As<Store>()) return;
        Walk(block.body, [&](const Stmt& s) {  // loops inside a block: schedule/nested.h
          if (const For* loop = s.As<For>()) used.push_back(loop->var);
          return true;
        });
      });
}

bool Contains(const std::vector<Name>& names, const Name& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

// ---- Paths ----------------------------------------------------------------------------------------------------------

std::vector<const For*> Path::Loops() const {
  std::vector<const For*> loops;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    if (const For* loop = nodes[i].As<For>()) loops.push_back(loop);
  }
  return loops;
}

Ranges Path::LoopRanges() const { return RangesOf(Loops()); }

Path Path::UpTo(const Name& var) const {
  Path prefix;
  for (const Stmt& node : nodes) {
    prefix.nodes.push_back(node);
    if (node.As<For>() && node.As<For>()->var == var) return prefix;
  }
  return {};
}

Result<Path> FindLoop(const Stmt& root, const Name& var) {
  Path path;
  auto is_target = [&](const Stmt& s) { return s.As<For>() && s.As<For>()->var == var; };
  if (FindPath(root, is_target, path.nodes)) return path;
  return Err("there is no loop '", var, "'");
}

Result<Path> FindBlock(const Stmt& root, const Name& name) {
  Path path;
  auto is_target = [&](const Stmt& s) { return s.As<Block>() && s.As<Block>()->name == name; };
  if (FindPath(root, is_target, path.nodes)) return path;
  return Err("there is no block '", name, "'");
}

Stmt ReplaceTarget(const Path& path, Stmt replacement) {
  for (size_t i = path.nodes.size() - 1; i-- > 0;) {
    const Stmt &parent = path.nodes[i], &child = path.nodes[i + 1];
    if (const For* loop = parent.As<For>()) {
      if (!IsEmpty(replacement)) replacement = WithBody(*loop, std::move(replacement));
    } else {
      replacement = MapChildren(
          parent, [&](const Stmt& s) { return s.Same(child) ? replacement : s; }, nullptr);
    }
  }
  return replacement;
}

void ForEachBlock(const Stmt& s, const BlockVisitor& f) {
  std::vector<const For*> loops;
  VisitBlocks(s, loops, f);
}

Stmt RewriteBlocks(const Stmt& s, const BlockRewriter& f) {
  Ranges inner;
  return RewriteBlocksIn(s, inner, f);
}

Result<int64_t> ConstExtent(const For& loop) {
  const int64_t* extent = AsInt(loop.extent);
  if (!extent) return Err("loop '", loop.var, "' has a symbolic extent; this step needs a constant");
  return *extent;
}

Result<std::vector<int64_t>> ConstExtents(const std::vector<Iter>& iters, const Name& block) {
  std::vector<int64_t> extents;
  for (const Iter& iter : iters) {
    const int64_t* extent = AsInt(iter.extent);
    if (!extent) return Err("iterator '", iter.var, "' of block '", block, "' has a symbolic extent");
    extents.push_back(*extent);
  }
  return extents;
}

Ranges RangesOf(const std::vector<const For*>& loops) {
  Ranges ranges;
  for (const For* loop : loops) {
    if (const int64_t* extent = AsInt(loop->extent)) ranges.push_back({loop->var, *extent});
  }
  return ranges;
}

Ranges Concat(Ranges a, const Ranges& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Stmt WrapLoops(const Ranges& loops, Stmt body) {
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) {
    body = MakeStmt(For{it->var, Expr(it->extent), LoopKind::kSerial, {}, std::move(body)});
  }
  return body;
}

Stmt WithBody(const For& loop, Stmt body) {
  return MakeStmt(For{loop.var, loop.extent, loop.kind, loop.annotations, std::move(body)});
}

Stmt WithBindings(const Block& block, const VarMap& map, const Ranges& ranges) {
  auto uses = [&](const Expr& e) {
    return std::any_of(map.begin(), map.end(), [&](const auto& entry) { return UsesVar(e, entry.first); });
  };
  Block changed = block;
  for (Iter& iter : changed.iters) {
    if (uses(iter.binding)) iter.binding = Normalized(Substitute(iter.binding, map), ranges);
  }
  if (uses(block.predicate)) changed.predicate = NormalizeCondition(block.predicate, map, ranges);
  return MakeStmt(std::move(changed));
}

Feeds FeedsOf(const Block& block, const Name& loop_var) {
  Feeds feeds;
  for (const Iter& iter : block.iters) {
    if (UsesVar(iter.binding, loop_var)) (iter.kind == IterKind::kSpatial ? feeds.spatial : feeds.reduce) = true;
  }
  return feeds;
}

bool IsReduction(const Block& block) {
  return std::any_of(block.iters.begin(), block.iters.end(),
                     [](const Iter& iter) { return iter.kind == IterKind::kReduce; });
}

// ---- Names ----------------------------------------------------------------------------------------------------------

Name Suffixed(const Name& base, const std::string& suffix) { return Name(base.str() + suffix); }

Result<std::vector<Name>> ResultNames(const std::vector<Name>& given, const std::vector<Name>& defaults) {
  if (given.empty()) return defaults;
  if (given.size() != defaults.size()) return Err("the step has ", defaults.size(), " results, not ", given.size());
  for (const Name& name : given) {
    if (name.empty()) return Err("a result has no name");
  }
  return given;
}

Result<std::vector<Name>> BlockAndLoopNames(const PrimFunc& func, const std::vector<Name>& given, const Name& block,
                                            const std::vector<Name>& loops) {
  std::vector<Name> all{given.empty() ? block : given[0]};
  all.insert(all.end(), loops.begin(), loops.end());
  const std::vector<Name> names = TRY(ResultNames(given.size() == 1 ? all : given, all));
  TRY(CheckNewBuffer(func, names[0]));
  TRY(CheckNewBlock(func, names[0]));
  TRY(CheckNewVars(func, {names.begin() + 1, names.end()}));
  return names;
}

Status CheckNewVars(const PrimFunc& func, const std::vector<Name>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (names[i] == names[j]) return Err("the name '", names[i], "' is given to two results");
    }
  }
  std::vector<Name> used;
  CollectVars(func, used);
  for (const Name& name : names) {
    if (Contains(used, name)) return Err("the name '", name, "' is taken; give the results other names");
  }
  return {};
}

Status CheckNewBlock(const PrimFunc& func, const Name& name) {
  bool used = false;
  Scan(
      func.body, [](const For&) {}, [&](const Block& block) { used |= block.name == name; });
  if (used) return Err("there is a block '", name, "' already; give the results other names");
  return {};
}

Status CheckNewBuffer(const PrimFunc& func, const Name& name) {
  if (FindBuffer(func, name)) return Err("there is a buffer '", name, "' already; give the results other names");
  return {};
}

FreshVars::FreshVars(const PrimFunc& func) { CollectVars(func, used_); }

Name FreshVars::Make(const Name& base) {
  Name name = base;
  for (int i = 1; Contains(used_, name); ++i) name = Suffixed(base, "_" + std::to_string(i));
  used_.push_back(name);
  return name;
}

// ---- Data flow ------------------------------------------------------------------------------------------------------

const Param* FindParam(const PrimFunc& func, const Name& buffer) {
  for (const Param& param : func.params) {
    if (param.buffer->name == buffer) return &param;
  }
  return nullptr;
}

bool HasConstShape(const Buffer& buffer) {
  return std::all_of(buffer->shape.begin(), buffer->shape.end(), [](const Expr& e) { return AsInt(e) != nullptr; });
}

const Buffer* FindBuffer(const PrimFunc& func, const Name& buffer) {
  if (const Param* param = FindParam(func, buffer)) return &param->buffer;
  for (const Buffer& alloc : func.allocs) {
    if (alloc->name == buffer) return &alloc;
  }
  return nullptr;
}

bool IsAlloc(const PrimFunc& func, const Name& buffer) {
  return std::any_of(func.allocs.begin(), func.allocs.end(), [&](const Buffer& b) { return b->name == buffer; });
}

void ReplaceAlloc(PrimFunc& func, const Buffer& buffer) {
  for (Buffer& alloc : func.allocs) {
    if (alloc->name == buffer->name) alloc = buffer;
  }
}

void RedeclareAlloc(PrimFunc& func, const Buffer& buffer) {
  const BufferMap map{{buffer->name, buffer}};
  func.body = RewriteBlocks(func.body, [&](const Block& block, const Ranges&) {
    if (!Reads(block, buffer->name) && !Writes(block, buffer->name)) return Stmt();
    Block changed = block;
    if (changed.init) changed.init = ReplaceBuffers(changed.init, map);
    changed.body = ReplaceBuffers(changed.body, map);
    return MakeStmt(std::move(changed));
  });
  ReplaceAlloc(func, buffer);
}

void RemoveAlloc(PrimFunc& func, const Name& buffer) {
  std::erase_if(func.allocs, [&](const Buffer& b) { return b->name == buffer; });
}

void ForEachLoad(const Block& block, const std::function<void(const Load&)>& f) {
  if (block.init) autotune::ForEachLoad(block.init, f);
  autotune::ForEachLoad(block.body, f);
}

void ForEachStore(const Block& block, const std::function<void(const Store&)>& f) {
  if (block.init) autotune::ForEachStore(block.init, f);
  autotune::ForEachStore(block.body, f);
}

bool Reads(const Block& block, const Name& buffer) {
  return autotune::Reads(block.body, buffer) || (block.init && autotune::Reads(block.init, buffer));
}

bool Writes(const Block& block, const Name& buffer) {
  bool found = false;
  ForEachStore(block, [&](const Store& store) { found |= store.buffer->name == buffer; });
  return found;
}

Result<Buffer> WrittenBuffer(const Block& block) {
  Buffer written;
  bool several = false;
  ForEachStore(block, [&](const Store& store) {
    several |= written && written->name != store.buffer->name;
    written = store.buffer;
  });
  if (!written || several) return Err("block '", block.name, "' does not write exactly one buffer");
  return written;
}

std::vector<Name> BuffersRead(const Block& block) {
  std::vector<Name> written, read;
  ForEachStore(block, [&](const Store& store) { written.push_back(store.buffer->name); });
  ForEachLoad(block, [&](const Load& load) {
    const Name& name = load.buffer->name;
    if (!Contains(written, name) && !Contains(read, name)) read.push_back(name);
  });
  return read;
}

std::vector<Name> WritersOf(const Stmt& root, const Name& buffer) {
  std::vector<Name> names;
  Scan(
      root, [](const For&) {},
      [&](const Block& block) {
        if (Writes(block, buffer)) names.push_back(block.name);
      });
  return names;
}

std::vector<Name> ReadersOf(const Stmt& root, const Name& buffer) {
  std::vector<Name> names;
  Scan(
      root, [](const For&) {},
      [&](const Block& block) {
        if (Reads(block, buffer) && !Writes(block, buffer)) names.push_back(block.name);
      });
  return names;
}

std::optional<std::vector<size_t>> AsIterators(const std::vector<Expr>& indices, const Block& block) {
  std::vector<size_t> places;
  for (const Expr& index : indices) {
    const Var* var = index.As<Var>();
    size_t i = 0;
    while (var && i < block.iters.size() && block.iters[i].var != var->name) ++i;
    if (!var || i == block.iters.size()) return std::nullopt;
    if (std::find(places.begin(), places.end(), i) != places.end()) return std::nullopt;
    places.push_back(i);
  }
  return places;
}

const Store* SingleStore(const Block& block) { return block.body.As<Store>(); }

bool IsLoadOf(const Expr& e, const Store& store) {
  const Load* load = e.As<Load>();
  return load && load->buffer->name == store.buffer->name && load->indices.size() == store.indices.size() &&
         std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(),
                    [](const Expr& a, const Expr& b) { return autotune::Equal(a, b); });
}

std::optional<Update> AsUpdate(const Store& store) {
  Update update;
  const Call* call = store.value.As<Call>();
  if (const Binary* binary = store.value.As<Binary>(); binary && IsCombiner(binary->op)) {
    bool left = IsLoadOf(binary->a, store);
    if (!left && !IsLoadOf(binary->b, store)) return std::nullopt;
    update = {binary->op, left ? binary->b : binary->a};
  } else if (call && call->op == Op::kFma && IsLoadOf(call->args[2], store)) {
    update = {BinaryOp::kAdd, call->args[0] * call->args[1]};
  } else {
    return std::nullopt;
  }
  bool again = false;
  Walk(update.term, [&](const Expr& e) {
    again |= e.As<Load>() && e.As<Load>()->buffer->name == store.buffer->name;
    return !again;
  });
  if (again) return std::nullopt;
  return update;
}

bool IsPlainSpatial(const Block& block) {
  const Store* store = SingleStore(block);
  return store && !block.init && !IsReduction(block) && AsIterators(store->indices, block) &&
         store->indices.size() == block.iters.size() && !Reads(block, store->buffer->name);
}

}  // namespace autotune::schedule
