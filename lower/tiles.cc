// verify_tiles: checks that loops annotated kTiles still are products of tiles (ir/tile_product.h), if the target has
// the instructions. Otherwise the code generator would emit the loops as they are, one product at a time.
#include "ir/annotations.h"
#include "ir/tile_product.h"
#include "ir/visit.h"
#include "lower/passes.h"

namespace autotune {

Result<PrimFunc> VerifyTiles(const PrimFunc& f, PassEnv& env) {
  if (!env.target.has_tiles) return f;
  Status status;
  Walk(f.body, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop || !loop->annotations.contains(kTiles) || MatchTileProduct(*loop)) return status.ok();
    status = Err("loop ", loop->var, " is annotated as a product of tiles, but it is none any more");
    return false;
  });
  TRY(std::move(status));
  return f;
}

}  // namespace autotune
