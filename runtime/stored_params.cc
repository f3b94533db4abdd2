#include "runtime/stored_params.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

namespace autotune {
namespace {

constexpr DLDataType kFloat = {kDLFloat, 32, 1}, kHalf = {kDLFloat, 16, 1}, kBFloat = {kDLBfloat, 16, 1};
constexpr DLDataType kByte = {kDLInt, 8, 1}, kWord = {kDLInt, 16, 1}, kNibbles = {kDLUInt, 8, 1};
constexpr const char *kNumbers = ".numbers", *kOffsets = ".offsets", *kScales = ".scales";

constexpr uint32_t kHalfShift = 13;     // bits of a significand of f32 that one of f16 lacks
constexpr float kHalfScale = 0x1p112F;  // the exponents of f32 are larger by this factor
constexpr uint32_t kSign = 1U << 31, kInfinity = 0x7f800000;

// Return the bits of the f32 that equals an f16 or a bf16. Unlike those of support/half.h, they keep each bit of a NaN,
// and compilers vectorize loops over them.
uint32_t FromHalf(uint16_t half) {
  const uint32_t magnitude = uint32_t{half & 0x7fffU} << kHalfShift;
  const auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * kHalfScale);
  const uint32_t sign = uint32_t{half & 0x8000U} << 16;
  return sign | ((half & 0x7c00U) == 0x7c00U ? magnitude | kInfinity : finite);
}
uint32_t FromBFloat(uint16_t half) { return uint32_t{half} << 16; }

// Return the bits of the f16 or the bf16 that equals an f32. If none equals it, they return any bits: the caller
// decodes them again and compares.
uint16_t ToHalf(uint32_t bits) {
  const uint32_t sign = (bits & kSign) >> 16, magnitude = bits & ~kSign;
  if (magnitude >= kInfinity) return static_cast<uint16_t>(sign | 0x7c00U | (magnitude & ~kInfinity) >> kHalfShift);
  const float scaled = std::bit_cast<float>(magnitude) / kHalfScale;  // as FromHalf multiplies
  return static_cast<uint16_t>(sign | std::bit_cast<uint32_t>(scaled) >> kHalfShift);
}
uint16_t ToBFloat(uint32_t bits) { return static_cast<uint16_t>(bits >> 16); }

// Returns a tensor of 16-bit floats that are equal to those of `tensor`; nothing if there are none.
template <uint32_t (*decode)(uint16_t), uint16_t (*encode)(uint32_t)>
std::optional<Tensor> InHalves(DLDataType type, const Tensor& tensor) {
  const auto* from = tensor.Data<uint32_t>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    if (decode(encode(from[i])) != from[i]) return std::nullopt;
  Result<Tensor> narrow = Tensor::Empty(tensor.shape(), type);
  if (!narrow.ok()) return std::nullopt;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) narrow->Data<uint16_t>()[i] = encode(from[i]);
  return std::move(*narrow);
}

Tensor Halved(Tensor tensor) {
  if (!(tensor.dtype() == kFloat)) return tensor;
  std::optional<Tensor> narrow = InHalves<FromBFloat, ToBFloat>(kBFloat, tensor);
  if (!narrow) narrow = InHalves<FromHalf, ToHalf>(kHalf, tensor);
  return narrow ? std::move(*narrow) : std::move(tensor);
}

// Returns words as bytes, if all of them have an equal there.
Tensor InBytes(Tensor tensor) {
  if (!(tensor.dtype() == kWord)) return tensor;
  const auto* from = tensor.Data<int16_t>();
  const auto is_byte = [](int16_t number) { return number >= INT8_MIN && number <= INT8_MAX; };
  if (!std::all_of(from, from + tensor.num_elements(), is_byte)) return tensor;
  Result<Tensor> narrow = Tensor::Empty(tensor.shape(), kByte);
  if (!narrow.ok()) return tensor;
  std::copy_n(from, tensor.num_elements(), narrow->Data<int8_t>());
  return std::move(*narrow);
}

Result<Tensor> Words(const Tensor& tensor) {
  if (!(tensor.dtype() == kByte)) return tensor;
  Tensor wide = TRY(Tensor::Empty(tensor.shape(), kWord));
  std::copy_n(static_cast<const int8_t*>(tensor.data()), tensor.num_elements(), wide.Data<int16_t>());
  return wide;
}

Result<Tensor> Floats(const Tensor& tensor) {
  const bool is_half = tensor.dtype() == kHalf;
  if (!is_half && !(tensor.dtype() == kBFloat)) return tensor;
  Tensor wide = TRY(Tensor::Empty(tensor.shape(), kFloat));
  const auto* from = static_cast<const char*>(tensor.data());  // need not be aligned
  auto* to = wide.Data<uint32_t>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = is_half ? FromHalf(bits) : FromBFloat(bits);
  }
  return wide;
}

// Calls visit(i, j, count) for each row of a tensor of this shape. The row has `count` elements, from element i on.
// Element j of a tensor of shape `repeated` belongs to its first one. `repeated` has the same rank, and extents of 1
// where it repeats. Sets `*step` to how far the elements of `repeated` move along a row: 0 or 1.
template <class Visit>
void ForEachRow(const std::vector<int64_t>& shape, const std::vector<int64_t>& repeated, int64_t* step,
                const Visit& visit) {
  const int64_t row = shape.empty() ? 1 : shape.back();
  *step = !repeated.empty() && repeated.back() > 1 ? 1 : 0;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, j = 0, stride = repeated.empty() ? 1 : repeated.back();
    for (size_t d = shape.size(); d-- > 1;) {
      const int64_t at = rest % shape[d - 1];
      rest /= shape[d - 1];
      if (repeated[d - 1] > 1) j += at * stride;
      stride *= repeated[d - 1];
    }
    visit(r * row, j, row);
  }
}

bool Repeats(const std::vector<int64_t>& part, const std::vector<int64_t>& shape) {
  return part.size() == shape.size() &&
         std::ranges::equal(part, shape, [](int64_t a, int64_t b) { return a == b || a == 1; });
}

struct Nibbles {
  Tensor numbers, offsets;
};

// Returns the numbers as two a byte if each group that has a scale of its own has a range of 4 bits.
Result<std::optional<Nibbles>> NibblesOf(const ScaledIntegers& from) {
  constexpr int kRange = 15;
  const std::vector<int64_t>&shape = from.numbers.shape(), &groups = from.scales.shape();
  if (shape.empty() || shape.back() % 2 != 0) return std::optional<Nibbles>();
  const auto* q = from.numbers.Data<int8_t>();
  const auto size = static_cast<size_t>(from.scales.num_elements());
  std::vector<int> least(size, INT8_MAX), most(size, INT8_MIN);
  int64_t step = 0;
  ForEachRow(shape, groups, &step, [&](int64_t i, int64_t j, int64_t count) {
    for (int64_t k = 0; k < count; ++k, ++i, j += step) {
      least[static_cast<size_t>(j)] = std::min<int>(least[static_cast<size_t>(j)], q[i]);
      most[static_cast<size_t>(j)] = std::max<int>(most[static_cast<size_t>(j)], q[i]);
    }
  });
  for (size_t j = 0; j < size; ++j)
    if (most[j] - least[j] > kRange) return std::optional<Nibbles>();
  // One offset serves all groups if all of their numbers are in one range.
  const int of_all = *std::ranges::min_element(least);
  const bool shared = *std::ranges::max_element(most) - of_all <= kRange;
  if (shared) std::ranges::fill(least, of_all);
  Nibbles made;
  std::vector<int64_t> halves = shape;
  halves.back() /= 2;
  made.numbers = TRY(Tensor::Zeros(halves, "u8"));
  made.offsets = TRY(Tensor::Empty(shared ? std::vector<int64_t>(shape.size(), 1) : groups, kByte));
  for (int64_t j = 0; j < made.offsets.num_elements(); ++j)
    made.offsets.Data<int8_t>()[j] = static_cast<int8_t>(least[static_cast<size_t>(j)]);
  auto* both = made.numbers.Data<uint8_t>();
  ForEachRow(shape, groups, &step, [&](int64_t i, int64_t j, int64_t count) {
    for (int64_t k = 0; k < count; ++k, ++i, j += step) {
      const int number = q[i] - least[static_cast<size_t>(j)];
      both[i / 2] = static_cast<uint8_t>(both[i / 2] | (i % 2 ? number << 4 : number));
    }
  });
  return std::optional(std::move(made));
}

// Returns the numbers as i8: those that are stored so, or two a byte with offsets.
Result<Tensor> IntegersOf(const Tensor& numbers, const Tensor& offsets) {
  if (numbers.dtype() == kByte) return numbers;
  std::vector<int64_t> shape = numbers.shape();
  if (!(numbers.dtype() == kNibbles) || shape.empty()) return Err("its numbers are ", numbers.TypeText());
  shape.back() *= 2;
  if (!offsets.defined() || !(offsets.dtype() == kByte) || !Repeats(offsets.shape(), shape))
    return Err("its offsets do not fit its numbers ", numbers.TypeText());
  Tensor integers = TRY(Tensor::Empty(shape, kByte));
  const auto* both = static_cast<const uint8_t*>(numbers.data());
  const auto* offset = static_cast<const int8_t*>(offsets.data());
  auto* to = integers.Data<int8_t>();
  int64_t step = 0;
  ForEachRow(shape, offsets.shape(), &step, [&](int64_t i, int64_t j, int64_t count) {
    for (int64_t k = 0; k < count; ++k, ++i, j += step)
      to[i] = static_cast<int8_t>((i % 2 ? both[i / 2] >> 4 : both[i / 2] & 15) + offset[j]);
  });
  return integers;
}

Result<Tensor> Product(const Tensor& numbers, const Tensor& offsets, const Tensor& stored_scales) {
  const Tensor integers = TRY(IntegersOf(numbers, offsets)), scales = TRY(Floats(stored_scales));
  if (!(scales.dtype() == kFloat) || !Repeats(scales.shape(), integers.shape()))
    return Err("its scales ", scales.TypeText(), " do not fit its numbers ", integers.TypeText());
  Tensor product = TRY(Tensor::Empty(integers.shape(), kFloat));
  const auto* q = static_cast<const int8_t*>(integers.data());
  const auto* s = static_cast<const char*>(scales.data());  // need not be aligned
  auto* to = product.Data<float>();
  int64_t step = 0;
  ForEachRow(integers.shape(), scales.shape(), &step, [&](int64_t i, int64_t j, int64_t count) {
    for (int64_t k = 0; k < count; ++k, ++i, j += step) {
      float scale = 0;
      std::memcpy(&scale, s + j * static_cast<int64_t>(sizeof scale), sizeof scale);
      to[i] = static_cast<float>(q[i]) * scale;
    }
  });
  return product;
}

}  // namespace

Result<Params> Narrowed(Params params, const std::map<std::string, ScaledIntegers>& scaled) {
  for (const auto& [name, parts] : scaled) {
    const auto whole = params.find(name);
    if (whole == params.end() || !Repeats(parts.scales.shape(), parts.numbers.shape())) continue;
    if (TRY(Product(parts.numbers, {}, parts.scales)).bytes() != whole->second.bytes()) continue;
    std::optional<Nibbles> nibbles = TRY(NibblesOf(parts));
    params.erase(name);
    params[name + kScales] = parts.scales;
    params[name + kNumbers] = nibbles ? nibbles->numbers : parts.numbers;
    if (nibbles) params[name + kOffsets] = nibbles->offsets;
  }
  for (auto& [name, tensor] : params) tensor = InBytes(Halved(std::move(tensor)));
  return params;
}

Result<Params> Widened(const Graph& graph, Params params) {
  for (const int64_t node : graph.Variables()) {
    const std::string& name = graph.nodes[node].name;
    const GraphEntry& entry = graph.nodes[node].outputs[0];
    const bool is_word = entry.dtype == "i16";
    if ((entry.dtype != "f32" && !is_word) || !IsStored(params, name)) continue;
    const std::string note = "parameter '" + name + "'";
    const auto take = [&](const std::string& part) {
      auto extracted = params.extract(part);
      return extracted ? std::move(extracted.mapped()) : Tensor();
    };
    if (Tensor whole = take(name); whole.defined()) {
      params[name] = is_word ? TRY_NOTE(Words(whole), note) : TRY_NOTE(Floats(whole), note);
      continue;
    }
    const Tensor numbers = take(name + kNumbers), offsets = take(name + kOffsets), scales = take(name + kScales);
    if (!scales.defined()) return Err(note, " has no scales");
    const Tensor product = TRY_NOTE(Product(numbers, offsets, scales), note);
    params[name] = TRY_NOTE(product.Reshape(entry.shape), note);
  }
  return params;
}

std::vector<std::string> StoredParts(const std::string& name) {
  return {name + kNumbers, name + kOffsets, name + kScales};
}

bool IsStored(const Params& params, const std::string& name) {
  return params.contains(name) || params.contains(name + kNumbers);
}

}  // namespace autotune
