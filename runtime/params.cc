#include "runtime/params.h"

#include <bit>
#include <cstring>
#include <optional>

#include "support/file.h"
#include "support/hint.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr uint64_t kParamsMagic = 0xF7E58D4F05049CB7, kTensorMagic = 0xDD5E40F096B4A13F;
constexpr uint64_t kReserved = 0;  // the number after each magic number
constexpr int32_t kMaxRank = 64;
// Bytes of a stored tensor of rank 0 without data, the smallest possible one.
constexpr size_t kTensorHeader = 8 + 8 + 4 + 4 + 4 + 4 + 8;

constexpr DLDataType kFloat = {kDLFloat, 32, 1}, kHalf = {kDLFloat, 16, 1}, kBFloat = {kDLBfloat, 16, 1};
constexpr uint32_t kHalfShift = 13;     // bits of a significand of f32 that one of f16 lacks
constexpr float kHalfScale = 0x1p112F;  // the exponents of f32 are larger by this factor
constexpr uint32_t kSign = 1U << 31, kInfinity = 0x7f800000;

// Both decode without branches, so that compilers vectorize loops over them.
uint32_t FromHalf(uint16_t half) {
  const uint32_t magnitude = uint32_t{half & 0x7fffU} << kHalfShift;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * kHalfScale);
  return (half & 0x7c00U) == 0x7c00U ? magnitude | kInfinity | uint32_t{half & 0x8000U} << 16
                                     : finite | uint32_t{half & 0x8000U} << 16;
}
uint32_t FromBFloat(uint16_t half) { return uint32_t{half} << 16; }

// Encode numbers that have these types, and anything else as some number.
uint16_t ToHalf(uint32_t bits) {
  const auto sign = static_cast<uint16_t>((bits & kSign) >> 16);
  const uint32_t magnitude = bits & ~kSign;
  if (magnitude >= kInfinity) return sign | 0x7c00U | static_cast<uint16_t>((magnitude & ~kInfinity) >> kHalfShift);
  const float scaled = std::bit_cast<float>(magnitude) / kHalfScale;  // as FromHalf multiplies
  return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(scaled) >> kHalfShift);
}
uint16_t ToBFloat(uint32_t bits) { return static_cast<uint16_t>(bits >> 16); }

// Returns a tensor of 16-bit floats that are equal to those of `tensor`; nothing if there are none.
template <uint32_t (*decode)(uint16_t), uint16_t (*encode)(uint32_t)>
std::optional<Tensor> NarrowedTo(DLDataType type, const Tensor& tensor) {
  const auto* from = tensor.Data<uint32_t>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    if (decode(encode(from[i])) != from[i]) return std::nullopt;
  Result<Tensor> narrow = Tensor::Empty(tensor.shape(), type);
  if (!narrow.ok()) return std::nullopt;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) narrow->Data<uint16_t>()[i] = encode(from[i]);
  return std::move(*narrow);
}

}  // namespace

Params Narrowed(Params params) {
  for (auto& [name, tensor] : params) {
    if (!(tensor.dtype() == kFloat)) continue;
    std::optional<Tensor> narrow = NarrowedTo<FromBFloat, ToBFloat>(kBFloat, tensor);
    if (!narrow) narrow = NarrowedTo<FromHalf, ToHalf>(kHalf, tensor);
    if (narrow) tensor = std::move(*narrow);
  }
  return params;
}

Result<Tensor> Widened(const Tensor& tensor) {
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

void WriteTensor(ByteWriter& out, const Tensor& tensor) {
  out.Number(kTensorMagic);
  out.Number(kReserved);
  out.Number(int32_t{kDLCPU});
  out.Number(int32_t{0});
  out.Number(static_cast<int32_t>(tensor.shape().size()));
  const DLDataType type = tensor.dtype();
  out.Number(type.code);
  out.Number(type.bits);
  out.Number(type.lanes);
  for (int64_t extent : tensor.shape()) out.Number(extent);
  out.Number(tensor.num_bytes());
  out.Raw(tensor.bytes());
}

namespace {

struct StoredTensor {
  DLDataType type{};
  std::vector<int64_t> shape;
  std::string_view bytes;
};

Result<StoredTensor> ReadStored(ByteReader& in) {
  if (TRY(in.Number<uint64_t>()) != kTensorMagic) return Err("a tensor does not begin with its magic number");
  if (TRY(in.Number<uint64_t>()) != kReserved) return Err("a tensor's reserved number is not 0");
  auto device = TRY(in.Number<int32_t>());
  TRY(in.Number<int32_t>());  // device id, which is not used
  if (device != kDLCPU) return Err("a tensor of device type ", device, "; stored tensors are the CPU's (1)");
  auto rank = TRY(in.Number<int32_t>());
  StoredTensor stored;
  DLDataType& type = stored.type;
  type.code = TRY(in.Number<uint8_t>());
  type.bits = TRY(in.Number<uint8_t>());
  type.lanes = TRY(in.Number<uint16_t>());
  TRY(DataTypeFromText(DataTypeText(type)));
  if (rank < 0 || rank > kMaxRank) return Err("a tensor cannot have rank ", rank);
  std::vector<int64_t>& shape = stored.shape;
  shape.resize(rank);
  for (int64_t& extent : shape) extent = TRY(in.Number<int64_t>());
  int64_t needed = TRY(ShapeBytes(shape, type));
  auto bytes = TRY(in.Number<int64_t>());
  if (bytes != needed) {
    return Err(DataTypeText(type), ShapeText(shape), " takes ", needed, " bytes, and the file says ", bytes);
  }
  stored.bytes = TRY(in.Raw(bytes));
  return stored;
}

Result<Tensor> ViewTensor(ByteReader& in) {
  StoredTensor stored = TRY(ReadStored(in));
  return Tensor::View(const_cast<char*>(stored.bytes.data()), std::move(stored.shape), stored.type, nullptr);
}

}  // namespace

Result<Tensor> ReadTensor(ByteReader& in) {
  StoredTensor stored = TRY(ReadStored(in));
  return Tensor::FromBytes(std::move(stored.shape), stored.type, stored.bytes);
}

void WriteNamedTensors(ByteWriter& out, const Params& params, bool count_first) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : params) names.push_back(name);
  if (count_first) out.Number(static_cast<uint64_t>(params.size()));
  out.Texts(names);
  if (!count_first) out.Number(static_cast<uint64_t>(params.size()));
  for (const auto& [name, tensor] : params) WriteTensor(out, tensor);
}

Result<Params> ReadNamedTensors(ByteReader& in, bool count_first, TensorReader* read) {
  uint64_t count = count_first ? TRY(in.Count(kTensorHeader)) : 0;
  std::vector<std::string> names = TRY(in.Texts());
  if (!count_first) count = TRY(in.Count(kTensorHeader));
  if (count != names.size()) return Err("parameters: ", names.size(), " names for ", count, " tensors");
  Params params;
  for (std::string& name : names) {
    std::string where = "parameter '" + OneLine(name) + "'";
    Tensor tensor = TRY_NOTE(read(in), where);
    if (!params.emplace(std::move(name), std::move(tensor)).second) return Err(where, " occurs twice");
  }
  return params;
}

std::string ParamsBytes(const Params& params) {
  ByteWriter out;
  size_t bytes = 32;
  for (const auto& [name, tensor] : params) {
    bytes += 8 + name.size() + kTensorHeader + 8 * tensor.shape().size() + tensor.num_bytes();
  }
  out.Reserve(bytes);
  out.Number(kParamsMagic);
  out.Number(kReserved);
  WriteNamedTensors(out, params);
  return out.Take();
}

namespace {

Result<Params> ReadParams(std::string_view blob, TensorReader* read) {
  ByteReader in(blob, "parameters");
  auto magic = in.Number<uint64_t>();
  if (blob.starts_with("ATPARAMS"))
    return WithHint(Err("parameters in the format of an older release"), "compile the model again");
  if (!magic.ok() || *magic != kParamsMagic) return Err("not a parameters file");
  if (TRY(in.Number<uint64_t>()) != kReserved) return Err("parameters: the reserved number is not 0");
  Params params = TRY(ReadNamedTensors(in, /*count_first=*/false, read));
  TRY(in.End());
  return params;
}

}  // namespace

Result<Params> ParseParams(std::string_view blob) { return ReadParams(blob, ReadTensor); }
Result<Params> ViewParams(std::string_view blob) { return ReadParams(blob, ViewTensor); }

Result<Params> LoadParams(const std::string& path) { return TRY_NOTE(ParseParams(TRY(ReadFile(path))), path); }

}  // namespace autotune
