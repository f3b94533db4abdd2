#include "runtime/fill.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "support/rng.h"

namespace autotune {
namespace {

// Each block has its own generator, so that blocks can be filled in any order and by any number of threads.
constexpr int64_t kBlock = int64_t{1} << 16;

// Fills `out` with elements f(u), where u are 32 random bits.
template <class T, class F>
void FillWords(T* out, int64_t count, uint64_t seed, F f) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    Rng rng(seed ^ (static_cast<uint64_t>(begin / kBlock) * 0x9e3779b97f4a7c15ULL));
    int64_t end = std::min(begin + kBlock, count), i = begin;
    for (; i + 2 <= end; i += 2) {
      uint64_t word = rng.Next();
      out[i] = f(static_cast<uint32_t>(word));
      out[i + 1] = f(static_cast<uint32_t>(word >> 32));
    }
    if (i < end) out[i] = f(static_cast<uint32_t>(rng.Next()));
  }
}

// Returns an integer in [-4, 4], without a division.
int32_t SmallInteger(uint32_t u) { return static_cast<int32_t>((uint64_t{u} * 9) >> 32) - 4; }

template <class T>
void FillFloat(T* out, int64_t count, uint64_t seed, FillKind kind) {
  switch (kind) {
    case FillKind::kUniform:  // 24 bits: exact in f32
      FillWords(out, count, seed, [](uint32_t u) { return static_cast<T>(static_cast<int32_t>(u) >> 8) * T(0x1p-23); });
      return;
    // The sum of four random bytes, minus its mean, times 1 / its standard deviation. The variance of a byte is
    // (256^2 - 1) / 12. Only the multiplication rounds.
    case FillKind::kNormal:
      FillWords(out, count, seed, [](uint32_t u) {
        int32_t sum = static_cast<int32_t>((u & 255) + (u >> 8 & 255) + (u >> 16 & 255) + (u >> 24)) - 510;
        return static_cast<T>(sum) * T(0.0067659f);
      });
      return;
    case FillKind::kSmallInteger:
      FillWords(out, count, seed, [](uint32_t u) { return static_cast<T>(SmallInteger(u)); });
      return;
  }
}

// Returns the bits of `value` as f16 or bf16. The value must be exact in both types.
uint16_t Narrow(float value, bool bfloat) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (bfloat) return static_cast<uint16_t>(bits >> 16);
  uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff, mantissa = bits >> 13 & 0x3ff;
  return static_cast<uint16_t>(exponent < 113 ? sign : sign | (exponent - 112) << 10 | mantissa);
}

}  // namespace

void FillRandom(const Tensor& tensor, uint64_t seed, FillKind kind) {
  int64_t count = tensor.num_elements();
  if (count == 0) return;
  DLDataType type = tensor.dtype();
  if (type.bits == 1) {
    FillWords(tensor.Data<uint8_t>(), count, seed, [](uint32_t u) { return static_cast<uint8_t>(u >> 31); });
  } else if (type.code == kDLFloat && type.bits == 32) {
    FillFloat(tensor.Data<float>(), count, seed, kind);
  } else if (type.code == kDLFloat && type.bits == 64) {
    FillFloat(tensor.Data<double>(), count, seed, kind);
  } else if (type.bits == 16 && (type.code == kDLFloat || type.code == kDLBfloat)) {
    bool bfloat = type.code == kDLBfloat;
    FillWords(tensor.Data<uint16_t>(), count, seed, [=](uint32_t u) {
      // Both types represent integers in [-4, 4], multiples of 1/64 in [-1, 1) and their halves exactly.
      float value = kind == FillKind::kSmallInteger ? static_cast<float>(SmallInteger(u))
                                                    : static_cast<float>(static_cast<int32_t>(u) >> 25) * 0x1p-6f;
      return Narrow(kind == FillKind::kUniform ? value * 0.5f : value, bfloat);
    });
  } else {
    bool is_signed = type.code == kDLInt;
    auto integer = [=](uint32_t u) { return is_signed ? SmallInteger(u) : static_cast<int32_t>(u >> 29); };
    switch (DataTypeBytes(type)) {
      case 1:
        FillWords(tensor.Data<int8_t>(), count, seed, integer);
        break;
      case 2:
        FillWords(tensor.Data<int16_t>(), count, seed, integer);
        break;
      case 4:
        FillWords(tensor.Data<int32_t>(), count, seed, integer);
        break;
      case 8:
        FillWords(tensor.Data<int64_t>(), count, seed, integer);
        break;
      default:
        CHECK(false) << "cannot fill " << tensor.TypeText();
    }
  }
}

namespace {

template <class T>
void AddWild(T* numbers, int64_t count, int64_t row, uint64_t seed, bool infinite) {
  constexpr T kLargest = std::numeric_limits<T>::infinity();
  Rng rng(seed ^ 0x5bd1e9955bd1e995ULL);
  auto place = [&](int64_t places) { return static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(places)); };
  const int64_t run = std::min(row, count / kLeastWild);
  auto fill = [&](T size, bool both_signs) {
    const int64_t begin = place(count / row) * row;
    for (int64_t i = begin; i < begin + run; ++i) numbers[i] = both_signs && place(2) == 0 ? -size : size;
  };
  fill(T(-1e9), false);
  for (const T size : {T(1e6), T(1e7), T(1e8)}) {
    fill(size, true);
    numbers[place(count)] = place(2) == 0 ? -size : size;
  }
  if (!infinite) return;
  for (const T number : {kLargest, -kLargest, std::numeric_limits<T>::quiet_NaN()}) numbers[place(count)] = number;
}

}  // namespace

void AddWildNumbers(const Tensor& tensor, uint64_t seed, bool infinite) {
  const int64_t count = tensor.num_elements();
  const DLDataType type = tensor.dtype();
  if (count < kLeastWild || type.code != kDLFloat || type.bits < 32) return;
  const int64_t row = tensor.shape().back();
  type.bits == 32 ? AddWild(tensor.Data<float>(), count, row, seed, infinite)
                  : AddWild(tensor.Data<double>(), count, row, seed, infinite);
}

void FillWholeRange(const Tensor& tensor, uint64_t seed) {
  CHECK(tensor.dtype().code <= kDLUInt && tensor.dtype().bits >= 8) << tensor.TypeText();
  FillWords(static_cast<uint8_t*>(tensor.data()), tensor.num_bytes(), seed,
            [](uint32_t u) { return static_cast<uint8_t>(u >> 24); });
}

}  // namespace autotune
