#include "te/index.h"

#include <algorithm>

#include "ir/visit.h"
#include "support/check.h"

namespace autotune::te {
namespace {

// Returns true if (high, low) is (x // c, x % c), where c is the second extent. Fusing such a pair gives x.
bool IsSplitOf(const Expr& high, const Expr& low, int64_t extent, Expr* x) {
  const Binary* div = high.As<Binary>();
  const Binary* mod = low.As<Binary>();
  if (!div || !mod || div->op != BinaryOp::kFloorDiv || mod->op != BinaryOp::kFloorMod) return false;
  if (!IsConst(div->b, extent) || !IsConst(mod->b, extent) || !Equal(div->a, mod->a)) return false;
  *x = div->a;
  return true;
}

// Fuses the indices of the dimensions [begin, end) into one index. Dimensions of extent 1 have index 0.
Expr Fuse(const std::vector<Expr>& indices, const Shape& shape, size_t begin, size_t end) {
  Expr flat;
  for (size_t i = begin; i < end; ++i) {
    if (shape[i] == 1) continue;
    Expr whole;
    if (!flat) {
      flat = indices[i];
    } else if (IsSplitOf(flat, indices[i], shape[i], &whole)) {
      flat = whole;
    } else {
      flat = flat * shape[i] + indices[i];
    }
  }
  return flat ? flat : Expr(0);
}

void Split(const Expr& flat, const Shape& shape, size_t begin, size_t end, std::vector<Expr>* out) {
  size_t first = begin;  // the first dimension that needs no mod
  while (first < end && shape[first] == 1) ++first;
  for (size_t i = begin; i < end; ++i) {
    if (shape[i] == 1) {
      out->push_back(0);
      continue;
    }
    int64_t inner = 1;
    for (size_t j = i + 1; j < end; ++j) inner *= shape[j];
    Expr e = FloorDiv(flat, inner);
    out->push_back(i == first ? e : FloorMod(e, shape[i]));
  }
}

}  // namespace

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::vector<Expr> ReshapeIndices(const std::vector<Expr>& indices, const Shape& from, const Shape& to) {
  CHECK(indices.size() == from.size()) << indices.size() << " subscripts for rank " << from.size();
  if (from == to) return indices;
  CHECK(Product(from) == Product(to));
  std::vector<Expr> out;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // Finds the shortest groups [i, i_end) and [j, j_end) of dimensions with equal products. One of them may be empty:
    // then the other is a trailing dimension of extent 1.
    size_t i_end = i, j_end = j;
    int64_t a = 1, b = 1;
    if (i_end < from.size()) a = from[i_end++];
    if (j_end < to.size()) b = to[j_end++];
    while (a != b) {
      if (a < b) {
        CHECK(i_end < from.size());
        a *= from[i_end++];
      } else {
        CHECK(j_end < to.size());
        b *= to[j_end++];
      }
    }
    if (i_end - i == 1 && j_end - j == 1) {
      out.push_back(indices[i]);
    } else {
      Split(Fuse(indices, from, i, i_end), to, j, j_end, &out);
    }
    i = i_end, j = j_end;
  }
  return out;
}

std::vector<Expr> BroadcastIndices(const std::vector<Expr>& indices, const Shape& result, const Shape& operand) {
  CHECK(indices.size() == result.size() && operand.size() <= result.size());
  std::vector<Expr> out;
  size_t offset = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i) {
    CHECK(operand[i] == 1 || operand[i] == result[offset + i]);
    out.push_back(operand[i] == 1 ? Expr(0) : indices[offset + i]);
  }
  return out;
}

bool BroadcastShapes(const Shape& a, const Shape& b, Shape* result) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t x = longer[offset + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) return false;
    out[offset + i] = x == 1 ? y : x;
  }
  *result = std::move(out);
  return true;
}

}  // namespace autotune::te
