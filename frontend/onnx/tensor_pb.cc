#include "frontend/onnx/tensor_pb.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "frontend/onnx/proto_reader.h"
#include "frontend/onnx/tensor_proto.h"
#include "support/file.h"

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

namespace autotune {
namespace onnx_import {

using namespace graph;

namespace {

using Proto = onnx::TensorProto;

struct TypeRow {
  int type;
  const char* name;
  DType dtype;
};
const TypeRow kTypes[] = {
    {Proto::FLOAT, "float32", DType::Float(32)},
    {Proto::UINT8, "uint8", DType::UInt(8)},
    {Proto::INT8, "int8", DType::Int(8)},
    {Proto::UINT16, "uint16", DType::UInt(16)},
    {Proto::INT16, "int16", DType::Int(16)},
    {Proto::INT32, "int32", DType::Int(32)},
    {Proto::INT64, "int64", DType::Int(64)},
    {Proto::BOOL, "bool", DType::Bool()},
    {Proto::FLOAT16, "float16", DType::Float(16)},
    {Proto::DOUBLE, "float64", DType::Float(64)},
    {Proto::UINT32, "uint32", DType::UInt(32)},
    {Proto::UINT64, "uint64", DType::UInt(64)},
    {Proto::BFLOAT16, "bfloat16", DType::BFloat16()},
};

// Copies `n` elements of a repeated field to `out`, `bytes` little-endian bytes of each.
template <class Field>
Status CopyField(const Field& field, int64_t n, int64_t bytes, char* out) {
  if (field.size() != n) return Err("has ", field.size(), " elements where its shape wants ", n);
  for (int64_t i = 0; i < n; ++i) {
    auto element = field.Get(static_cast<int>(i));
    std::memcpy(out + i * bytes, &element, bytes);
  }
  return {};
}

Status CopyTyped(const Proto& proto, const TensorSpec& spec, char* out) {
  int64_t n = spec.NumElements(), bytes = spec.dtype.Bytes();
  switch (proto.data_type()) {
    case Proto::FLOAT:
      return CopyField(proto.float_data(), n, bytes, out);
    case Proto::DOUBLE:
      return CopyField(proto.double_data(), n, bytes, out);
    case Proto::INT64:
      return CopyField(proto.int64_data(), n, bytes, out);
    case Proto::UINT32:
    case Proto::UINT64:
      return CopyField(proto.uint64_data(), n, bytes, out);
    default:
      return CopyField(proto.int32_data(), n, bytes, out);
  }
}

}  // namespace

std::string OnnxTypeName(int data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == data_type) return row.name;
  }
  if (data_type == Proto::STRING) return "string";
  if (data_type == Proto::COMPLEX64) return "complex64";
  if (data_type == Proto::COMPLEX128) return "complex128";
  // Types that the installed ONNX headers may not have, numbered from kFirstNewer on.
  constexpr int kFirstNewer = 17;
  constexpr const char* kNewer[] = {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",
                                    "int4",         "float4e2m1",     "float8e8m0", "uint2",          "int2"};
  const int newer = data_type - kFirstNewer;
  if (newer >= 0 && newer < static_cast<int>(std::size(kNewer))) return kNewer[newer];
  return "type " + std::to_string(data_type);
}

std::string OnnxTypeName(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return dtype.Text();
}

std::optional<DType> OnnxDType(int data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == data_type) return row.dtype;
  }
  return std::nullopt;
}

namespace {

// Types of 4 bits, two numbers a byte, the lower half first. Installed headers may not name them.
constexpr int kUInt4 = 21, kInt4 = 22;

// Returns a constant of integers of 4 bits as integers of 8 bits.
Result<TensorValue> Widened(const Proto& proto, const ModelFolder& folder) {
  Proto packed = proto;
  int64_t count = 1;
  for (int64_t d : proto.dims()) {
    if (d < 0 || d > std::numeric_limits<int32_t>::max() / count)
      return Err("tensor '", proto.name(), "' has an impossible shape");
    count *= std::max<int64_t>(d, 1);
  }
  for (int64_t d : proto.dims()) count = d == 0 ? 0 : count;
  packed.set_data_type(Proto::UINT8);
  packed.clear_dims();
  packed.add_dims((count + 1) / 2);
  const TensorValue bytes = TRY(ToTensorValue(packed, folder));
  const bool is_signed = proto.data_type() == kInt4;
  TensorSpec spec{is_signed ? DType::Int(8) : DType::UInt(8), {proto.dims().begin(), proto.dims().end()}};
  char* out = nullptr;
  SharedBytes data = SharedBytes::Allocate(static_cast<size_t>(count), &out);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t pair = bytes.As<uint8_t>()[i / 2];
    const int half = i % 2 == 0 ? pair & 15 : pair >> 4;
    out[i] = static_cast<char>(is_signed && half > 7 ? half - 16 : half);
  }
  return TensorValue{std::move(spec), std::move(data)};
}

}  // namespace

Result<TensorValue> ToTensorValue(const Proto& proto, const ModelFolder& folder) {
  if (proto.data_type() == kUInt4 || proto.data_type() == kInt4) return Widened(proto, folder);
  if (proto.has_segment()) return Err("tensor '", proto.name(), "' is stored in segments, which ONNX has withdrawn");
  const TypeRow* row = nullptr;
  for (const TypeRow& r : kTypes) {
    if (r.type == proto.data_type()) row = &r;
  }
  if (!row)
    return Err("tensor '", proto.name(), "' has element type ", OnnxTypeName(proto.data_type()),
               ", which is not supported");
  TensorSpec spec{row->dtype, {proto.dims().begin(), proto.dims().end()}};
  int64_t limit = std::numeric_limits<int32_t>::max(), n = 1;  // n: product of the extents other than 0
  for (int64_t d : spec.shape) {
    if (d < 0 || d > limit / n)
      return Err("tensor '", proto.name(), "' has an impossible shape ", ShapeText(spec.shape));
    n *= std::max<int64_t>(d, 1);
  }
  if (proto.data_location() == Proto::EXTERNAL) {
    std::map<std::string, std::string> entries;
    for (const auto& entry : proto.external_data()) entries[entry.key()] = entry.value();
    SharedBytes bytes =
        TRY_NOTE(ReadExternalData(folder, entries, spec), "external data of tensor '" + proto.name() + "'");
    return TensorValue{std::move(spec), std::move(bytes)};
  }
  if (proto.has_raw_data()) {
    if (static_cast<int64_t>(proto.raw_data().size()) != spec.Bytes()) {
      return Err("tensor '", proto.name(), "' has ", proto.raw_data().size(), " bytes where ", spec.Text(), " wants ",
                 spec.Bytes());
    }
    return TensorValue{std::move(spec), SharedBytes::Copy(proto.raw_data())};
  }
  // Check that the file holds the elements before allocating memory for them.
  if (spec.NumElements() > static_cast<int64_t>(proto.ByteSizeLong()))
    return Err("tensor '", proto.name(), "' has fewer elements than ", spec.Text());
  char* out = nullptr;
  SharedBytes bytes = SharedBytes::Allocate(spec.Bytes(), &out);
  TRY_NOTE(CopyTyped(proto, spec, out), "in tensor '" + proto.name() + "'");
  return TensorValue{std::move(spec), std::move(bytes)};
}

Status ToTensorProto(const TensorValue& value, const std::string& name, Proto* proto) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == value.spec.dtype) {
      proto->set_data_type(row.type);
      proto->set_name(name);
      for (int64_t d : value.spec.shape) proto->add_dims(d);
      proto->set_raw_data(value.bytes.data(), value.bytes.size());
      return {};
    }
  }
  return Err("ONNX has no element type for ", value.spec.Text());
}

}  // namespace onnx_import

Result<NamedTensor> ParseTensorPb(std::string_view bytes, const std::string& source) {
  onnx::TensorProto proto;
  if (bytes.empty() || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Err(source, " is not an ONNX tensor file (damaged or cut short?)");
  }
  graph::TensorValue value = TRY_NOTE(onnx_import::ToTensorValue(proto), "in " + source);
  return NamedTensor{proto.name(), std::move(value)};
}

Result<NamedTensor> ReadTensorPb(const std::string& path) {
  std::string bytes = TRY(onnx_import::ReadProtoFile(path));
  return ParseTensorPb(bytes, path);
}

Status WriteTensorPb(const std::string& path, const NamedTensor& tensor) {
  onnx::TensorProto proto;
  TRY(onnx_import::ToTensorProto(tensor.value, tensor.name, &proto));
  std::string bytes;
  if (!proto.SerializeToString(&bytes))
    return Err("cannot write ", path, ": a tensor of ", tensor.value.spec.Text(),
               " is too large for a file of this format");
  return WriteFile(path, bytes);
}

}  // namespace autotune
