// Transposes in registers. A transpose that writes vectors gathers what it reads: lanes a stride apart, one load each.
// Where as many such vectors as there are lanes stand in a row, each beginning one element further, together they read
// a square of elements: its rows are loaded as vectors and shuffled, log2(lanes) times each, into its columns.
#include <algorithm>
#include <bit>
#include <iterator>
#include <map>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/walk.h"

namespace autotune {
namespace {

constexpr int kBlockBytes = 16;  // shuffles within blocks of these are the cheap ones, where they are not all the same

// A load of a column: lanes `stride` elements apart.
struct Column {
  const Load* load = nullptr;
  LinearForm base;
  int64_t stride = 0;
  int lanes = 0;

  bool InOneSquareWith(const Column& other) const {
    return load->buffer->name == other.load->buffer->name && stride == other.stride && lanes == other.lanes &&
           base.terms == other.base.terms &&
           (base.rest ? other.base.rest && Equal(base.rest, other.base.rest) : !other.base.rest);
  }
};

std::optional<Column> AsColumn(const Expr& e) {
  const Load* load = e.As<Load>();
  const Ramp* ramp = load ? load->indices[0].As<Ramp>() : nullptr;
  const int64_t* stride = ramp ? AsInt(ramp->stride) : nullptr;
  const int lanes = e.dtype().lanes;
  if (!stride || *stride < lanes || lanes < 4 || !std::has_single_bit(static_cast<unsigned>(lanes)))
    return std::nullopt;
  if (load->buffer->scope == Scope::kRegister || load->buffer->dtype.IsBool()) return std::nullopt;
  return Column{load, ToLinear(ramp->base), *stride, lanes};
}

// Those that are loaded whatever holds.
void AddColumns(const Store& store, std::vector<Column>& columns) {
  WalkOnce(store.value, [&](const Expr& e) {
    if (std::optional<Column> column = AsColumn(e)) columns.push_back(std::move(*column));
    return !e.As<Load>() && !e.As<Select>();
  });
}

}  // namespace

void FunctionEmitter::FindTiles(const Seq& seq) {
  std::set<Name> written;
  std::vector<Column> columns;
  for (const Stmt& s : seq.stmts) {
    if (s.As<Evaluate>()) continue;
    const Store* store = s.As<Store>();
    if (!store) return;
    written.insert(store->buffer->name);
    AddColumns(*store, columns);
  }
  std::erase_if(columns, [&](const Column& c) { return written.contains(c.load->buffer->name); });
  while (!columns.empty()) {
    auto others = std::stable_partition(columns.begin(), columns.end(),
                                        [first = columns[0]](const Column& c) { return c.InOneSquareWith(first); });
    std::vector<Column> square(columns.begin(), others);
    columns.erase(columns.begin(), others);
    // By where they begin; several may be the same one. Whole squares only, of columns side by side.
    std::map<int64_t, std::vector<const Load*>> starts;
    for (const Column& column : square) starts[column.base.constant].push_back(column.load);
    const int64_t lanes = square[0].lanes;
    for (auto begin = starts.begin(); begin != starts.end();) {
      auto end = begin;
      while (end != starts.end() && end->first == begin->first + std::distance(begin, end) &&
             std::distance(begin, end) < lanes)
        ++end;
      if (std::distance(begin, end) == lanes) {
        auto tile = std::make_shared<Tile>(Tile{begin->second[0], {}});
        for (auto at = begin; at != end; ++at) {
          for (const Load* load : at->second) tiles_[load] = {tile, static_cast<size_t>(at->first - begin->first)};
        }
      }
      begin = end;
    }
  }
}

llvm::Value* FunctionEmitter::ColumnOfTile(const Load& load, llvm::Type* type) {
  auto found = tiles_.find(&load);
  if (found == tiles_.end()) return nullptr;
  auto& [tile, column] = found->second;
  if (tile->columns.empty()) {
    const Ramp& ramp = *tile->first->indices[0].As<Ramp>();
    for (int64_t row = 0; row < llvm::cast<llvm::FixedVectorType>(type)->getNumElements(); ++row) {
      Address address = AddressOf(load.buffer, ramp.base + ramp.stride * Expr(row));
      tile->columns.push_back(builder_.CreateAlignedLoad(type, address.pointer, address.alignment));
    }
    tile->columns = Transposed(std::move(tile->columns), static_cast<int>(load.buffer->dtype.Bytes()));
  }
  return tile->columns[column];
}

std::vector<llvm::Value*> FunctionEmitter::Transposed(std::vector<llvm::Value*> rows, int element_bytes) {
  const int lanes = static_cast<int>(rows.size()), block = std::min(lanes, std::max(1, kBlockBytes / element_bytes));
  // The elements of two vectors with even numbers, or odd ones, of each piece of `piece` lanes of both; an element is
  // `size` lanes. In pairs over a list of vectors, even ones first, that rotates the bits of (vector, lane) by one:
  // after as many times as a lane's number has bits, both have changed places.
  auto half = [&](llvm::Value* a, llvm::Value* b, int odd, int piece, int size) {
    std::vector<int> order;
    for (int begin = 0; begin < lanes; begin += piece) {
      for (int from : {0, lanes}) {
        for (int at = odd * size; at < piece; at += 2 * size) {
          for (int i = 0; i < size; ++i) order.push_back(from + begin + at + i);
        }
      }
    }
    return builder_.CreateShuffleVector(a, b, order);
  };
  auto rotate = [&](std::vector<llvm::Value*> list, int piece, int size) {
    for (int n = piece / size; n > 1; n /= 2) {
      std::vector<llvm::Value*> next;
      for (int odd : {0, 1}) {
        for (size_t i = 0; i < list.size(); i += 2) next.push_back(half(list[i], list[i + 1], odd, piece, size));
      }
      list = std::move(next);
    }
    return list;
  };
  // Squares within blocks first, then blocks as elements.
  for (int begin = 0; begin < lanes; begin += block) {
    std::vector<llvm::Value*> group = rotate({rows.begin() + begin, rows.begin() + begin + block}, block, 1);
    std::copy(group.begin(), group.end(), rows.begin() + begin);
  }
  std::vector<llvm::Value*> columns(rows.size());
  for (int first = 0; first < block; ++first) {
    std::vector<llvm::Value*> group;
    for (int i = first; i < lanes; i += block) group.push_back(rows[i]);
    group = rotate(std::move(group), lanes, block);
    for (size_t i = 0; i < group.size(); ++i) columns[i * block + first] = group[i];
  }
  return columns;
}

}  // namespace autotune
