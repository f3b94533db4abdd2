#include "codegen/c/registers.h"

#include <algorithm>
#include <bit>
#include <map>

#include "codegen/lanes.h"
#include "codegen/walk.h"
#include "support/check.h"

namespace autotune::c {

std::vector<Chunk> ChunksOf(int lanes, int max_lanes) {
  std::vector<Chunk> chunks;
  for (int begin = 0; begin < lanes; begin += chunks.back().count) {
    const auto left = static_cast<unsigned>(lanes - begin);
    chunks.push_back({begin, std::min(max_lanes, static_cast<int>(std::bit_floor(left)))});
  }
  return chunks;
}

std::optional<std::vector<int64_t>> ElementsOf(const Expr& index, Chunk chunk) {
  if (const int64_t* element = AsInt(index)) return std::vector<int64_t>{*element};
  const std::optional<Lanes> lanes = LanesOf(index);
  const int64_t* base = lanes ? AsInt(lanes->base) : nullptr;
  if (!base) return std::nullopt;
  std::vector<int64_t> elements;
  for (int i = chunk.begin; i < chunk.begin + chunk.count; ++i)
    elements.push_back(*base + lanes->offsets[static_cast<size_t>(i)]);
  return elements;
}

bool AreConsecutive(const std::vector<int64_t>& elements) {
  for (size_t i = 1; i < elements.size(); ++i) {
    if (elements[i] != elements[0] + static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::optional<Registers> Registers::For(const Buffer& buffer, const Stmt& body, int max_lanes, const std::string& stem,
                                        Names& names) {
  std::map<std::pair<int64_t, int64_t>, bool> intervals;  // [first element, end) -> whether a store writes it
  bool constant = true;
  auto add = [&](const Buffer& b, const Expr& index, int lanes, bool written) {
    if (b->name != buffer->name) return;
    for (Chunk chunk : ChunksOf(lanes, max_lanes)) {
      const auto elements = ElementsOf(index, chunk);
      constant &= elements.has_value();
      if (!elements) return;
      if (AreConsecutive(*elements)) {
        intervals[{elements->front(), elements->back() + 1}] |= written;
        continue;
      }
      for (int64_t e : *elements) intervals[{e, e + 1}] |= written;
    }
  };
  WalkOnce(
      body,
      [&](const Stmt& s) {
        if (const Store* store = s.As<Store>()) add(store->buffer, store->indices[0], store->value.dtype().lanes, true);
        return true;
      },
      [&](const Expr& e) {
        if (const Load* load = e.As<Load>()) add(load->buffer, load->indices[0], e.dtype().lanes, false);
        return true;
      });
  if (!constant) return std::nullopt;
  // Overlapping intervals become one piece. One of the intervals must cover all others.
  Registers registers;
  for (auto at = intervals.begin(); at != intervals.end();) {
    const int64_t begin = at->first.first;
    int64_t end = begin;
    auto next = at;
    for (; next != intervals.end() && (next == at || next->first.first < end); ++next)
      end = std::max(end, next->first.second);
    if (!intervals.contains({begin, end})) return std::nullopt;
    const Name id(stem + "_" + std::to_string(registers.pieces_.size()));
    Piece piece{begin, static_cast<int>(end - begin), names.Fresh(Names::Kind::kOwn, id)};
    for (; at != next; ++at) piece.in_part |= at->second && at->first != std::pair(begin, end);
    registers.pieces_.push_back(std::move(piece));
  }
  return registers;
}

const Registers::Piece& Registers::Holding(int64_t element) const {
  auto after = std::upper_bound(pieces_.begin(), pieces_.end(), element,
                                [](int64_t e, const Piece& piece) { return e < piece.begin; });
  CHECK(after != pieces_.begin()) << "no register holds element " << element;
  return *std::prev(after);
}

}  // namespace autotune::c
