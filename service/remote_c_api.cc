// The functions of compiler_c_api.h for devices of a farm. Functions and modules of a device are wrapped as functions
// of the runtime library, so that programs call them as any other.
#include <functional>
#include <memory>

#include "rpc/remote_device.h"
#include "rpc/tracker_choice.h"
#include "runtime/dlpack_versioned.h"
#include "service/c_errors.h"
#include "service/compiler_c_api.h"
#include "service/remote_module.h"

struct autotune_remote {
  std::shared_ptr<autotune::rpc::RemoteDevice> device;
};

namespace autotune {
namespace {

autotune_dtype Dtype(DLDataType type) { return {type.code, type.bits, type.lanes}; }

using Body = std::function<Result<Value>(std::span<const Value> args)>;

// The context of a function of the runtime library that stands for a value of a device.
struct DeviceValue {
  Value value;  // what an argument with this function is: a function, module, tensor or object of the device
  Body body;
};

int CallBody(void* context, const autotune_value* args, int32_t num_args, autotune_value* result);

// Returns the value of an argument. A tensor is borrowed for the call.
Result<Value> ArgumentOf(const autotune_value& value) {
  switch (value.kind) {
    case AUTOTUNE_NULL:
      return Value();
    case AUTOTUNE_INT:
      return Value(value.as.integer);
    case AUTOTUNE_FLOAT:
      return Value(value.as.number);
    case AUTOTUNE_STRING:
    case AUTOTUNE_BYTES: {
      const std::string text(value.as.text.data ? value.as.text.data : "", value.as.text.size);
      return value.kind == AUTOTUNE_STRING ? Value(text) : Value(Bytes{text});
    }
    case AUTOTUNE_DTYPE:
      return Value(DLDataType{value.as.dtype.code, value.as.dtype.bits, value.as.dtype.lanes});
    case AUTOTUNE_DEVICE:
      return Value(DLDevice{static_cast<DLDeviceType>(value.as.device.type), value.as.device.id});
    case AUTOTUNE_TENSOR: {
      autotune_tensor_info info{};
      if (autotune_tensor_get_info(value.as.tensor, &info) != AUTOTUNE_OK) return Argument(Err(autotune_last_error()));
      if (info.device.type != kDLCPU) return Argument(Err("a tensor of a device of this machine cannot be sent"));
      const DLDataType type{info.dtype.code, info.dtype.bits, info.dtype.lanes};
      return Value(TRY(Tensor::View(info.data, {info.shape, info.shape + info.ndim}, type, nullptr)));
    }
    case AUTOTUNE_FUNCTION:
      if (const void* context = autotune_function_context(value.as.function, CallBody))
        return static_cast<const DeviceValue*>(context)->value;
      [[fallthrough]];
    default:
      return Argument(Err("modules, functions and objects of this process cannot be sent to a device"));
  }
}

Status OfC(int code) {
  if (code != AUTOTUNE_OK) return Err(autotune_last_error());
  return {};
}

Status SetResult(const Value& value, autotune_value* out);

int CallBody(void* context, const autotune_value* args, int32_t num_args, autotune_value* result) {
  return Guarded([&]() -> Status {
    std::vector<Value> values;
    for (int32_t i = 0; i < num_args; ++i) values.push_back(TRY(ArgumentOf(args[i])));
    return SetResult(TRY(static_cast<const DeviceValue*>(context)->body(values)), result);
  });
}

// Makes a function of the runtime library that runs `body` and stands for `value`.
Status MakeFunction(Value value, Body body, autotune_function** out) {
  auto context = std::make_unique<DeviceValue>(std::move(value), std::move(body));
  TRY(OfC(autotune_function_create(
      CallBody, context.get(), [](void* its) { delete static_cast<DeviceValue*>(its); }, out)));
  context.release();
  return {};
}

// A module is a function that gives the module's functions by their names.
Status MakeFunction(const Module& module, autotune_function** out) {
  const auto look_up = [module](std::span<const Value> args) -> Result<Value> {
    if (args.size() != 1) return Argument(Err("a module of a device takes the name of a function"));
    return Value(TRY(module->GetFunction(TRY(args[0].As<std::string>()))));
  };
  return MakeFunction(Value(module), look_up, out);
}

// Sets `out`, which holds nothing, to a result.
Status SetResult(const Value& value, autotune_value* out) {
  const auto function = [&](Status made) -> Status {
    if (made.ok()) out->kind = AUTOTUNE_FUNCTION;
    return made;
  };
  if (const auto* text = value.If<std::string>())
    return OfC(autotune_value_set_text(out, AUTOTUNE_STRING, text->data(), text->size()));
  if (const auto* bytes = value.If<Bytes>())
    return OfC(autotune_value_set_text(out, AUTOTUNE_BYTES, bytes->data.data(), bytes->data.size()));
  if (const auto* callee = value.If<PackedFunc>(); callee && *callee)
    return function(MakeFunction(
        value, [callee = *callee](std::span<const Value> args) { return callee.Call(args); }, &out->as.function));
  if (const auto* module = value.If<Module>(); module && *module)
    return function(MakeFunction(*module, &out->as.function));
  if (const auto* object = value.If<ObjectRef>(); object && *object) {
    const auto no_function = [](std::span<const Value>) -> Result<Value> { return Err("an object is no function"); };
    return function(MakeFunction(value, no_function, &out->as.function));
  }
  if (const auto* tensor = value.If<Tensor>(); tensor && tensor->defined()) {
    TRY(OfC(autotune_tensor_from_dlpack_versioned(tensor->ToVersionedDLPack(), &out->as.tensor)));
    out->kind = AUTOTUNE_TENSOR;
  } else if (const auto* integer = value.If<int64_t>()) {
    out->kind = AUTOTUNE_INT, out->as.integer = *integer;
  } else if (const auto* number = value.If<double>()) {
    out->kind = AUTOTUNE_FLOAT, out->as.number = *number;
  } else if (const auto* type = value.If<DLDataType>()) {
    out->kind = AUTOTUNE_DTYPE, out->as.dtype = Dtype(*type);
  } else if (const auto* device = value.If<DLDevice>()) {
    out->kind = AUTOTUNE_DEVICE, out->as.device = {static_cast<int32_t>(device->device_type), device->device_id};
  } else if (!value.IsNull()) {
    return Err("the result is of type ", value.TypeName(), ", which cannot leave the device");
  }
  return {};
}

// A tensor of a device is a function that copies it to this host.
Result<Value> CopyOf(rpc::RemoteDevice& device, const ObjectRef& tensor, std::span<const Value> args) {
  if (!args.empty()) return Argument(Err("a tensor of a device is read by a call without arguments"));
  return Value(TRY(device.Read(tensor)));
}

}  // namespace
}  // namespace autotune

using autotune::Guarded;
using autotune::Needs;
using autotune::Status;

extern "C" {

int autotune_remote_connect(const char* join, const char* tracker, const char* key, double wait_seconds,
                            autotune_remote** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(key, "key"));
    TRY(Needs(out, "out"));
    if (!(wait_seconds >= 0 && wait_seconds <= 1e9))
      return autotune::Argument(autotune::Err("the seconds to wait must be a number from 0 to 10^9"));
    autotune::rpc::TrackerChoice choice;
    choice.join = join ? join : "";
    choice.tracker = tracker ? tracker : "";
    autotune::rpc::RemoteDevice::Options options;
    options.farm.tracker = TRY(choice.Find());
    options.farm.key = key;
    options.farm.job = "library";
    if (wait_seconds > 0) options.farm.wait_seconds = wait_seconds;
    auto device = TRY(autotune::rpc::RemoteDevice::Connect(options));
    *out = new autotune_remote{std::move(device)};
    return {};
  });
}

int autotune_remote_load(autotune_remote* remote, const char* path, int32_t threads, autotune_function** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(remote, "remote"));
    TRY(Needs(path, "path"));
    TRY(Needs(out, "out"));
    if (threads < 0) return autotune::Argument(autotune::Err("the number of threads is ", threads));
    return autotune::MakeFunction(TRY(autotune::LoadRemoteModule(remote->device, path, threads)), out);
  });
}

int autotune_remote_tensor(autotune_remote* remote, const autotune_tensor* tensor, autotune_function** out) {
  return Guarded([&]() -> Status {
    TRY(Needs(remote, "remote"));
    TRY(Needs(tensor, "tensor"));
    TRY(Needs(out, "out"));
    autotune_value value{};
    value.kind = AUTOTUNE_TENSOR;
    value.as.tensor = const_cast<autotune_tensor*>(tensor);  // it is only read
    const autotune::Value local = TRY(autotune::ArgumentOf(value));
    const autotune::ObjectRef made = TRY(remote->device->NewTensor(*local.If<autotune::Tensor>()));
    const auto read = [device = remote->device, made](std::span<const autotune::Value> args) {
      return autotune::CopyOf(*device, made, args);
    };
    return autotune::MakeFunction(autotune::Value(made), read, out);
  });
}

int autotune_remote_call(autotune_remote* remote, const char* name, const autotune_value* args, int32_t num_args,
                         autotune_value* result) {
  return Guarded([&]() -> Status {
    TRY(Needs(remote, "remote"));
    TRY(Needs(name, "name"));
    TRY(Needs(result, "result"));
    if (num_args < 0) return autotune::Argument(autotune::Err("a negative number of arguments"));
    if (num_args > 0) TRY(Needs(args, "args"));
    *result = autotune_value{};
    std::vector<autotune::Value> values;
    for (int32_t i = 0; i < num_args; ++i) values.push_back(TRY(autotune::ArgumentOf(args[i])));
    return autotune::SetResult(TRY(remote->device->Call(name, values)), result);
  });
}

void autotune_remote_free(autotune_remote* remote) { delete remote; }

}  // extern "C"
