// The functions of compiler_c_api.h for devices of a farm. Functions and modules of a device are wrapped as functions
// of the runtime library, so that programs call them as any other.
#include <cstring>
#include <mutex>
#include <optional>

#include "package/send.h"
#include "rpc/remote_device.h"
#include "rpc/tracker_choice.h"
#include "runtime/dlpack_versioned.h"
#include "service/c_errors.h"
#include "service/compiler_c_api.h"

struct autotune_remote {
  std::shared_ptr<autotune::rpc::RemoteDevice> device;
};

namespace autotune {
namespace {

autotune_dtype Dtype(DLDataType type) { return {type.code, type.bits, type.lanes}; }

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
    default:
      return Argument(Err("modules, functions and objects of this process cannot be sent to a device"));
  }
}

Status OfC(int code) {
  if (code != AUTOTUNE_OK) return Err(autotune_last_error());
  return {};
}

using Body = std::function<Result<Value>(std::span<const Value> args)>;

Status SetResult(const Value& value, autotune_value* out);

int CallBody(void* context, const autotune_value* args, int32_t num_args, autotune_value* result) {
  return Guarded([&]() -> Status {
    std::vector<Value> values;
    for (int32_t i = 0; i < num_args; ++i) values.push_back(TRY(ArgumentOf(args[i])));
    return SetResult(TRY((*static_cast<const Body*>(context))(values)), result);
  });
}

// Makes a function of the runtime library that runs `body`.
Status MakeFunction(Body body, autotune_function** out) {
  auto context = std::make_unique<Body>(std::move(body));
  TRY(OfC(autotune_function_create(
      CallBody, context.get(), [](void* its) { delete static_cast<Body*>(its); }, out)));
  context.release();
  return {};
}

// A module is a function that gives the module's functions by their names.
Body LookUpIn(Module module) {
  return [module = std::move(module)](std::span<const Value> args) -> Result<Value> {
    if (args.size() != 1) return Argument(Err("a module of a device takes the name of a function"));
    return Value(TRY(module->GetFunction(TRY(args[0].As<std::string>()))));
  };
}

// Sets `out`, which holds nothing, to a result.
Status SetResult(const Value& value, autotune_value* out) {
  const auto function = [&](Body body) -> Status {
    TRY(MakeFunction(std::move(body), &out->as.function));
    out->kind = AUTOTUNE_FUNCTION;
    return {};
  };
  if (const auto* text = value.If<std::string>())
    return OfC(autotune_value_set_text(out, AUTOTUNE_STRING, text->data(), text->size()));
  if (const auto* bytes = value.If<Bytes>())
    return OfC(autotune_value_set_text(out, AUTOTUNE_BYTES, bytes->data.data(), bytes->data.size()));
  if (const auto* callee = value.If<PackedFunc>(); callee && *callee)
    return function([callee = *callee](std::span<const Value> args) { return callee.Call(args); });
  if (const auto* module = value.If<Module>(); module && *module) return function(LookUpIn(*module));
  if (const auto* tensor = value.If<Tensor>(); tensor && tensor->defined()) {
    TRY(OfC(autotune_tensor_from_dlpack_versioned(tensor->ToVersionedDLPack(), &out->as.tensor)));
    out->kind = AUTOTUNE_TENSOR;
  } else if (const auto* integer = value.If<int64_t>()) {
    out->kind = AUTOTUNE_INT, out->as.integer = *integer;
  } else if (const auto* number = value.If<double>()) {
    out->kind = AUTOTUNE_FLOAT, out->as.number = *number;
  } else if (const auto* type = value.If<DLDataType>()) {
    out->kind = AUTOTUNE_DTYPE, out->as.dtype = Dtype(*type);
  } else if (!value.IsNull()) {
    return Err("the result is of type ", value.TypeName(), ", which cannot leave the device");
  }
  return {};
}

// The module of a package: as that of the runtime library, its functions "default" and the network's name make
// executors.
Body FactoryOf(std::shared_ptr<rpc::RemoteDevice> device, SentPackage package, int threads) {
  auto sent = std::make_shared<const SentPackage>(std::move(package));
  return [device = std::move(device), sent, threads](std::span<const Value> args) -> Result<Value> {
    if (args.size() != 1) return Argument(Err("a module of a device takes the name of a function"));
    const std::string name = TRY(args[0].As<std::string>());
    if (name != "default" && name != sent->info.model_name)
      return Err("the package has no function '", name, "'; 'default' makes an executor");
    return Value(PackedFunc([device, sent, threads](std::span<const Value>) -> Result<Value> {
      return Value(TRY(device->LoadNetwork({sent->library, sent->graph_json, sent->params}, threads)));
    }));
  };
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
    const std::string note = std::string("while loading ") + path;
    autotune::SentPackage sent = TRY_NOTE(autotune::PackageToSend(path), note);
    if (!sent.graph_json.empty())
      return autotune::MakeFunction(autotune::FactoryOf(remote->device, std::move(sent), threads), out);
    return autotune::MakeFunction(autotune::LookUpIn(TRY_NOTE(remote->device->LoadModule(sent.library, threads), note)),
                                  out);
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
