#include <unordered_map>

#include "lower/passes.h"

namespace autotune {
namespace {

class Flattener {
 public:
  Buffer Flat(const Buffer& buffer) {
    auto it = flat_.find(buffer.get());
    if (it != flat_.end()) return it->second.second;
    Buffer flat = Buffer::Make(buffer->name, buffer->dtype, {Expr(ElementsOf(buffer))}, buffer->scope);
    flat_.emplace(buffer.get(), std::pair{buffer, flat});
    return flat;
  }

  Expr Index(const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<int64_t> strides = StridesOf(ConstShape(buffer), buffer->dim_align);
    Expr index = Expr(0);
    for (size_t d = strides.size(); d-- > 0;) index = indices[d] * Expr(strides[d]) + index;
    return index;
  }

  Stmt Run(const Stmt& s) {
    return RewriteStmt(
        s,
        [&](const Stmt& x) {
          if (const Store* store = x.As<Store>()) {
            return MakeStmt(Store{Flat(store->buffer), {Index(store->buffer, store->indices)}, store->value});
          }
          if (const Alloc* alloc = x.As<Alloc>()) return MakeStmt(Alloc{Flat(alloc->buffer), alloc->body});
          return x;
        },
        [&](const Expr& x) {
          const Load* load = x.As<Load>();
          return load ? MakeLoad(Flat(load->buffer), {Index(load->buffer, load->indices)}) : x;
        });
  }

 private:
  // Keeps each original buffer beside its flat form, so that its address, the key, is not reused.
  std::unordered_map<const BufferCell*, std::pair<Buffer, Buffer>> flat_;
};

}  // namespace

Result<PrimFunc> FlattenBuffers(const PrimFunc& f, PassEnv&) {
  for (const Param& p : f.params) {
    if (!p.buffer->strides.empty())
      return Err("parameter ", p.buffer->name, " has strides: only compact ones are supported");
  }
  Flattener flattener;
  PrimFunc g = f;
  for (Param& p : g.params) p.buffer = flattener.Flat(p.buffer);
  for (Buffer& b : g.allocs) b = flattener.Flat(b);
  g.body = flattener.Run(f.body);
  return g;
}

}  // namespace autotune
