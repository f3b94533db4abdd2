#include "rpc/remote_value.h"

#include "runtime/tensor.h"

namespace autotune::rpc {
namespace {

enum class Kind : uint8_t { kNull, kInt, kFloat, kString, kBytes, kType, kDevice, kTensor, kHandle };
constexpr size_t kMostDimensions = 32;  // of a tensor [chosen]

void WriteType(DLDataType type, ByteWriter& out) {
  out.Number(type.code);
  out.Number(type.bits);
  out.Number(type.lanes);
}

Result<DLDataType> ReadType(ByteReader& in) {
  DLDataType type;
  type.code = TRY(in.Number<uint8_t>());
  type.bits = TRY(in.Number<uint8_t>());
  type.lanes = TRY(in.Number<uint16_t>());
  return type;
}

// Reads the type and shape of a tensor. Returns an error for what no tensor has.
Status ReadTensorType(ByteReader& in, DLDataType& type, std::vector<int64_t>& shape) {
  type = TRY(ReadType(in));
  TRY(DataTypeFromText(DataTypeText(type)));
  shape = TRY(in.Numbers<int64_t>());
  if (shape.size() > kMostDimensions) return Err("remote value: a tensor of ", shape.size(), " dimensions");
  TRY(ShapeBytes(shape, type));
  return {};
}

void WriteHandle(const RemoteHandle& handle, ByteWriter& out) {
  out.Number(static_cast<uint8_t>(Kind::kHandle));
  out.Number(static_cast<uint8_t>(handle.kind));
  out.Number(handle.number);
  out.Text(handle.type_key);
  if (handle.kind != RemoteHandle::Kind::kTensor) return;
  WriteType(handle.dtype, out);
  out.Numbers(handle.shape);
}

Result<RemoteHandle> ReadHandle(ByteReader& in) {
  RemoteHandle handle;
  const auto kind = TRY(in.Number<uint8_t>());
  if (kind > static_cast<uint8_t>(RemoteHandle::Kind::kTensor))
    return Err("remote value: a handle of kind ", int{kind});
  handle.kind = static_cast<RemoteHandle::Kind>(kind);
  handle.number = TRY(in.Number<int64_t>());
  handle.type_key = TRY(in.Text());
  if (handle.kind == RemoteHandle::Kind::kTensor) TRY(ReadTensorType(in, handle.dtype, handle.shape));
  return handle;
}

bool TravelsWhole(const Tensor& tensor, int64_t inline_bytes) {
  return tensor.defined() && !tensor.device() && tensor.num_bytes() <= inline_bytes;
}

}  // namespace

Status WriteValue(const Value& value, const ExportHandle& export_handle, ByteWriter& out, int64_t inline_bytes) {
  const auto kind = [&](Kind k) { out.Number(static_cast<uint8_t>(k)); };
  if (value.IsNull()) {
    kind(Kind::kNull);
  } else if (const auto* integer = value.If<int64_t>()) {
    kind(Kind::kInt);
    out.Number(*integer);
  } else if (const auto* number = value.If<double>()) {
    kind(Kind::kFloat);
    out.Number(*number);
  } else if (const auto* text = value.If<std::string>()) {
    kind(Kind::kString);
    out.Text(*text);
  } else if (const auto* bytes = value.If<Bytes>()) {
    kind(Kind::kBytes);
    out.Text(bytes->data);
  } else if (const auto* type = value.If<DLDataType>()) {
    kind(Kind::kType);
    WriteType(*type, out);
  } else if (const auto* device = value.If<DLDevice>()) {
    kind(Kind::kDevice);
    out.Number(static_cast<int32_t>(device->device_type));
    out.Number(static_cast<int32_t>(device->device_id));
  } else if (const auto* tensor = value.If<Tensor>(); tensor && TravelsWhole(*tensor, inline_bytes)) {
    kind(Kind::kTensor);
    WriteType(tensor->dtype(), out);
    out.Numbers(tensor->shape());
    out.Raw(tensor->bytes());
  } else {
    WriteHandle(TRY(export_handle(value)), out);
  }
  return {};
}

Result<Value> ReadValue(ByteReader& in, const ImportHandle& import_handle) {
  const auto kind = TRY(in.Number<uint8_t>());
  switch (static_cast<Kind>(kind)) {
    case Kind::kNull:
      return Value();
    case Kind::kInt:
      return Value(TRY(in.Number<int64_t>()));
    case Kind::kFloat:
      return Value(TRY(in.Number<double>()));
    case Kind::kString:
      return Value(TRY(in.Text()));
    case Kind::kBytes: {
      const std::string_view bytes = TRY(in.Text());
      return Value(Bytes{std::string(bytes)});
    }
    case Kind::kType:
      return Value(TRY(ReadType(in)));
    case Kind::kDevice: {
      DLDevice device;
      device.device_type = static_cast<DLDeviceType>(TRY(in.Number<int32_t>()));
      device.device_id = TRY(in.Number<int32_t>());
      return Value(device);
    }
    case Kind::kTensor: {
      DLDataType type;
      std::vector<int64_t> shape;
      TRY(ReadTensorType(in, type, shape));
      const std::string_view bytes = TRY(in.Raw(static_cast<uint64_t>(TRY(ShapeBytes(shape, type)))));
      return Value(TRY(Tensor::FromBytes(std::move(shape), type, bytes)));
    }
    case Kind::kHandle:
      if (!import_handle) return Err("remote value: a handle where none is expected");
      return import_handle(TRY(ReadHandle(in)));
  }
  return Err("remote value: a value of kind ", int{kind});
}

Result<std::string> WriteCall(const RemoteCall& call, const ExportHandle& export_handle, int64_t inline_bytes) {
  ByteWriter out;
  out.Numbers(call.released);
  out.Number(call.function);
  out.Text(call.name);
  out.Number(static_cast<uint64_t>(call.args.size()));
  for (const Value& arg : call.args) TRY(WriteValue(arg, export_handle, out, inline_bytes));
  return out.Take();
}

Result<RemoteCall> ReadCall(std::string_view bytes, const std::function<void(int64_t)>& release,
                            const ImportHandle& import_handle) {
  ByteReader in(bytes, "remote call");
  RemoteCall call;
  call.released = TRY(in.Numbers<int64_t>());
  for (int64_t handle : call.released) release(handle);
  call.function = TRY(in.Number<int64_t>());
  call.name = TRY(in.Text());
  const uint64_t count = TRY(in.Count(1));
  for (uint64_t i = 0; i < count; ++i) call.args.push_back(TRY(ReadValue(in, import_handle)));
  TRY(in.End());
  return call;
}

Result<std::string> WriteReply(const Result<Value>& result, const ExportHandle& export_handle, int64_t inline_bytes) {
  ByteWriter out;
  out.Number(static_cast<uint8_t>(result.ok() ? 1 : 0));
  if (!result.ok()) {
    out.Text(result.error().Text());
  } else {
    TRY(WriteValue(*result, export_handle, out, inline_bytes));
  }
  return out.Take();
}

Result<Result<Value>> ReadReply(std::string_view bytes, const ImportHandle& import_handle) {
  ByteReader in(bytes, "reply of a remote call");
  const auto ok = TRY(in.Number<uint8_t>());
  if (ok == 0) {
    const std::string text(TRY(in.Text()));
    TRY(in.End());
    return Result<Value>(Err(text));
  }
  Value value = TRY(ReadValue(in, import_handle));
  TRY(in.End());
  return Result<Value>(std::move(value));
}

}  // namespace autotune::rpc
