#include "codegen/llvm/cpu/transposes.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "codegen/walk.h"
#include "ir/byte_table.h"

namespace autotune {
namespace {

constexpr int kBlockBytes = 16;  // AVX shuffles within blocks of this size are cheaper than shuffles across blocks
constexpr int kMinLanes = 4;     // least length of a vector; transposing shorter ones gains nothing

// A load of a column: its lanes are `stride` elements apart.
struct Column {
  const Load* load = nullptr;
  LinearForm base;
  int64_t stride = 0;
  int lanes = 0;

  bool InOneSquareWith(const Column& other) const {
    return load->buffer->name == other.load->buffer->name && stride == other.stride && lanes == other.lanes &&
           base.SameTerms(other.base);
  }
};

std::optional<Column> AsColumn(const Expr& e) {
  const Load* load = e.As<Load>();
  const Ramp* ramp = load ? load->indices[0].As<Ramp>() : nullptr;
  const int64_t* stride = ramp ? AsInt(ramp->stride) : nullptr;
  const int lanes = e.dtype().lanes;
  if (!stride || *stride < lanes || lanes < kMinLanes || !std::has_single_bit(static_cast<unsigned>(lanes)))
    return std::nullopt;
  if (load->buffer->scope == Scope::kRegister || load->buffer->dtype.IsBool()) return std::nullopt;
  return Column{load, ToLinear(ramp->base), *stride, lanes};
}

// Adds the columns that `store` loads unconditionally.
void AddColumns(const Store& store, std::vector<Column>& columns) {
  WalkOnce(store.value, [&](const Expr& e) {
    if (std::optional<Column> column = AsColumn(e)) columns.push_back(std::move(*column));
    const Load* load = e.As<Load>();
    return (!load || LookedUpByte(*load)) && !e.As<Select>();
  });
}

// Returns the columns that the stores of `seq` load from buffers that `seq` does not write. Returns none if `seq`
// contains other statements than stores and hints.
std::vector<Column> ColumnsOf(const Seq& seq) {
  std::set<Name> written;
  std::vector<Column> columns;
  for (const Stmt& s : seq.stmts) {
    if (s.As<Evaluate>()) continue;
    const Store* store = s.As<Store>();
    if (!store) return {};
    written.insert(store->buffer->name);
    AddColumns(*store, columns);
  }
  std::erase_if(columns, [&](const Column& c) { return written.contains(c.load->buffer->name); });
  return columns;
}

// The loads of the columns that may form a square, by the constant term of the index of a column's first element.
// Several loads may read the same column.
using Starts = std::map<int64_t, std::vector<const Load*>>;

// Removes the first column from `columns`, and all columns that may form a square with it. Returns them.
Starts TakeGroup(std::vector<Column>& columns) {
  auto others = std::stable_partition(columns.begin(), columns.end(),
                                      [first = columns[0]](const Column& c) { return c.InOneSquareWith(first); });
  Starts starts;
  for (auto column = columns.begin(); column != others; ++column) {
    starts[column->base.constant].push_back(column->load);
  }
  columns.erase(columns.begin(), others);
  return starts;
}

}  // namespace

void Transposes::Find(const Seq& seq) {
  std::vector<Column> columns = ColumnsOf(seq);
  while (!columns.empty()) {
    const int64_t lanes = columns[0].lanes;
    Starts starts = TakeGroup(columns);
    for (auto begin = starts.begin(); begin != starts.end();) {
      auto end = begin;
      int64_t count = 0;
      for (; end != starts.end() && end->first == begin->first + count && count < lanes; ++end) ++count;
      if (count == lanes) {
        auto square = std::make_shared<Square>(Square{begin->second[0], {}});
        for (auto at = begin; at != end; ++at) {
          for (const Load* load : at->second) columns_[load] = {square, static_cast<size_t>(at->first - begin->first)};
        }
      }
      begin = end;
    }
  }
}

llvm::Value* Transposes::ColumnOf(Addresses& addresses, const Load& load, llvm::Type* type) {
  auto found = columns_.find(&load);
  if (found == columns_.end()) return nullptr;
  auto& [square, column] = found->second;
  if (square->columns.empty()) {
    const Ramp& ramp = *square->first->indices[0].As<Ramp>();
    std::vector<llvm::Value*> rows;
    for (int64_t row = 0; row < llvm::cast<llvm::FixedVectorType>(type)->getNumElements(); ++row) {
      Addresses::Address address = addresses.Of(load.buffer, ramp.base + ramp.stride * Expr(row));
      rows.push_back(builder_.CreateAlignedLoad(type, address.pointer, address.alignment));
    }
    square->columns = Transposed(std::move(rows), load.buffer->dtype.Bytes());
  }
  return square->columns[column];
}

std::vector<llvm::Value*> Transposes::Transposed(std::vector<llvm::Value*> rows, int64_t element_bytes) {
  const int lanes = static_cast<int>(rows.size());
  const int block = std::min(lanes, std::max(1, kBlockBytes / static_cast<int>(element_bytes)));
  // Cuts two vectors into pieces of `piece` lanes and each piece into elements of `size` lanes. Takes the elements with
  // even numbers (`odd` = 0) or odd numbers (`odd` = 1) of each piece, and joins them piece by piece.
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
  // Transposes squares of n x n elements, where n = piece / size. The list has n vectors. The pieces at one place of
  // these vectors form a square. A pass takes the even halves of all pairs of neighbouring vectors, then the odd
  // halves. This rotates the bits of each element's position, the binary number (vector, element in the piece), by one.
  // After log2(n) passes, both parts of the number are exchanged.
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
  // First transposes the squares within blocks, then the square whose elements are blocks.
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
