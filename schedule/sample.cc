#include "schedule/sample.h"

#include <algorithm>
#include <limits>

#include "schedule/step.h"
#include "support/integer.h"

namespace autotune {

std::vector<int64_t> InnerTiles(int64_t extent, int64_t max_inner, int64_t multiple_of, int64_t limit) {
  std::vector<int64_t> tiles;
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::min(max_inner, AlignUp(extent, multiple_of));
  for (int64_t tile = multiple_of; tile <= most; tile += multiple_of) {
    int64_t covered = AlignUp(extent, tile);
    int64_t cost = covered <= limit ? 0 : covered;
    if (cost < least) tiles.clear(), least = cost;
    if (cost == least) tiles.push_back(tile);
  }
  return tiles;
}

std::vector<int64_t> MiddleTiles(int64_t count, int64_t size, int64_t limit) {
  std::vector<int64_t> tiles;
  limit = std::max(limit, count * size);
  for (int64_t repeats = count; repeats >= 1;) {
    int64_t tile = CeilDiv(count, repeats);
    if (tile * repeats * size <= limit) tiles.push_back(tile);
    if (tile == count) break;
    repeats = std::min(CeilDiv(count, tile + 1), repeats - 1);
  }
  return tiles;
}

Result<std::vector<int64_t>> DrawTile(int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of, int64_t limit,
                                      Rng& rng) {
  auto draw = [&](const std::vector<int64_t>& list) { return list[rng.Below(static_cast<int64_t>(list.size()))]; };
  std::vector<int64_t> inner = InnerTiles(extent, max_inner, multiple_of, limit);
  if (inner.empty()) return Err("no multiple of ", multiple_of, " is at most max_inner=", max_inner);
  std::vector<int64_t> tile(n, 1);
  tile[n - 1] = draw(inner);
  int64_t size = tile[n - 1], count = CeilDiv(extent, size);
  for (int64_t level = n - 2; level >= 1; --level) {
    tile[level] = draw(MiddleTiles(count, size, limit));
    size *= tile[level];
    count = CeilDiv(count, tile[level]);
  }
  tile[0] = count;
  return tile;
}

Status CheckTile(const std::vector<int64_t>& tile, int64_t extent, int64_t n, int64_t max_inner, int64_t multiple_of) {
  if (static_cast<int64_t>(tile.size()) != n) return Err("the tile has ", tile.size(), " factors, not ", n);
  int64_t product = 1;
  for (int64_t factor : tile) {
    if (factor < 1 || factor > kMaxExtent / product) return Err("factor ", factor, " is out of range");
    product *= factor;
  }
  if (product < extent) return Err("the tile covers ", product, " of ", extent, " iterations");
  if (tile.back() > max_inner) return Err("the innermost factor ", tile.back(), " exceeds max_inner=", max_inner);
  if (tile.back() % multiple_of != 0) {
    return Err("the innermost factor ", tile.back(), " is not a multiple of ", multiple_of);
  }
  return {};
}

}  // namespace autotune
