#include "runtime/params.h"

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

}  // namespace

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
