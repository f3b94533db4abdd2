// Values, functions, modules and the registry of the C API.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "api/handles.h"
#include "package/load.h"
#include "runtime/module.h"
#include "runtime/registry.h"

namespace autotune::api {
namespace {

// Sets a value to a copy of the text. A string gets a NUL that `size` does not count; so do bytes.
void SetText(autotune_value& value, int32_t kind, std::string_view text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = 0;
  value.kind = kind;
  value.as.text.data = copy;
  value.as.text.size = text.size();
}

// Clears values at the end of a scope.
struct Clearer {
  std::vector<autotune_value>& values;
  ~Clearer() {
    for (autotune_value& value : values) autotune_value_clear(&value);
  }
};

// A function of the program.
struct Callback {
  autotune_callback call;
  void* context;
  void (*release)(void*) = nullptr;  // null until the function's handle exists
  Callback(autotune_callback function, void* its_context) : call(function), context(its_context) {}
  Callback(const Callback&) = delete;
  ~Callback() {
    if (release) release(context);
  }

  Result<Value> Call(std::span<const Value> args) const {
    std::vector<autotune_value> values;
    Clearer clear_values{values};
    values.reserve(args.size() + 1);
    for (const Value& arg : args) values.push_back(ToC(arg));
    std::vector<autotune_value> result(1);
    Clearer clear_result{result};
    autotune_set_last_error("");
    if (const int code = call(context, values.data(), static_cast<int32_t>(args.size()), &result[0])) {
      const std::string text = autotune_last_error();
      return text.empty() ? Err("a callback returned the error code ", code) : Err(text);
    }
    return FromC(result[0]);
  }
};

// A function of a callback, as the callable of a PackedFunc.
struct CallbackFunction {
  std::shared_ptr<Callback> callback;
  Result<Value> operator()(std::span<const Value> args) const { return callback->Call(args); }
};

void CollectNames(ModuleNode& module, std::vector<std::string>& names, std::set<std::string>& seen) {
  for (const std::string& name : module.FunctionNames()) {
    if (seen.insert(name).second) names.push_back(name);
  }
  for (const Module& import : module.imports()) CollectNames(*import, names, seen);
}

}  // namespace

autotune_module* NewModule(Module module) {
  auto handle = std::make_unique<autotune_module>();
  handle->type = module ? module->TypeKey() : "null";
  handle->module = std::move(module);
  return handle.release();
}

autotune_value ToC(const Value& value) {
  autotune_value c{};
  if (const auto* integer = value.If<int64_t>()) {
    c.kind = AUTOTUNE_INT;
    c.as.integer = *integer;
  } else if (const auto* number = value.If<double>()) {
    c.kind = AUTOTUNE_FLOAT;
    c.as.number = *number;
  } else if (const auto* text = value.If<std::string>()) {
    SetText(c, AUTOTUNE_STRING, *text);
  } else if (const auto* bytes = value.If<Bytes>()) {
    SetText(c, AUTOTUNE_BYTES, bytes->data);
  } else if (const auto* dtype = value.If<DLDataType>()) {
    c.kind = AUTOTUNE_DTYPE;
    c.as.dtype = ToC(*dtype);
  } else if (const auto* device = value.If<DLDevice>()) {
    c.kind = AUTOTUNE_DEVICE;
    c.as.device = ToC(*device);
  } else if (const auto* tensor = value.If<Tensor>(); tensor && tensor->defined()) {
    c.as.tensor = new autotune_tensor{*tensor};
    c.kind = AUTOTUNE_TENSOR;
  } else if (const auto* module = value.If<Module>(); module && *module) {
    c.as.module = NewModule(*module);
    c.kind = AUTOTUNE_MODULE;
  } else if (const auto* function = value.If<PackedFunc>(); function && *function) {
    c.as.function = new autotune_function{*function};
    c.kind = AUTOTUNE_FUNCTION;
  } else if (const auto* object = value.If<ObjectRef>(); object && *object) {
    c.as.object = new autotune_object{*object, std::string((*object)->TypeKey())};
    c.kind = AUTOTUNE_OBJECT;
  }
  return c;  // AUTOTUNE_NULL: null, and null handles
}

Result<Value> FromC(const autotune_value& value) {
  switch (value.kind) {
    case AUTOTUNE_NULL:
      return Value();
    case AUTOTUNE_INT:
      return Value(value.as.integer);
    case AUTOTUNE_FLOAT:
      return Value(value.as.number);
    case AUTOTUNE_STRING:
    case AUTOTUNE_BYTES: {
      if (value.as.text.size > 0) TRY(NotNull(value.as.text.data, "a text"));
      std::string text(value.as.text.data ? value.as.text.data : "", value.as.text.size);
      return value.kind == AUTOTUNE_STRING ? Value(std::move(text)) : Value(Bytes{std::move(text)});
    }
    case AUTOTUNE_DTYPE:
      return Value(FromC(value.as.dtype));
    case AUTOTUNE_DEVICE:
      return Value(FromC(value.as.device));
    case AUTOTUNE_TENSOR:
      TRY(NotNull(value.as.tensor, "a tensor"));
      return Value(value.as.tensor->tensor);
    case AUTOTUNE_MODULE:
      TRY(NotNull(value.as.module, "a module"));
      return Value(value.as.module->module);
    case AUTOTUNE_FUNCTION:
      TRY(NotNull(value.as.function, "a function"));
      return Value(value.as.function->function);
    case AUTOTUNE_OBJECT:
      TRY(NotNull(value.as.object, "an object"));
      return Value(value.as.object->object);
    default:
      return Invalid("no value has the kind ", value.kind);
  }
}

Result<std::vector<Value>> FromC(const autotune_value* values, int32_t count) {
  if (count < 0) return Invalid("a negative number of arguments");
  if (count > 0) TRY(NotNull(values, "args"));
  std::vector<Value> list;
  for (int32_t i = 0; i < count; ++i) list.push_back(TRY_NOTE(FromC(values[i]), "argument " + std::to_string(i)));
  return list;
}

}  // namespace autotune::api

using namespace autotune;       // NOLINT: the functions of the API lie in the global namespace
using namespace autotune::api;  // NOLINT

extern "C" {

void autotune_value_clear(autotune_value* value) {
  if (!value) return;
  switch (value->kind) {
    case AUTOTUNE_STRING:
    case AUTOTUNE_BYTES:
      std::free(const_cast<char*>(value->as.text.data));
      break;
    case AUTOTUNE_TENSOR:
      Free(value->as.tensor);
      break;
    case AUTOTUNE_MODULE:
      Free(value->as.module);
      break;
    case AUTOTUNE_FUNCTION:
      Free(value->as.function);
      break;
    case AUTOTUNE_OBJECT:
      Free(value->as.object);
      break;
    default:
      break;
  }
  *value = autotune_value{};
}

int autotune_value_copy(const autotune_value* value, autotune_value* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(value, "value"));
    TRY(NotNull(out, "out"));
    *out = ToC(TRY(FromC(*value)));
    return {};
  });
}

int autotune_value_set_text(autotune_value* value, int32_t kind, const char* data, size_t size) {
  return Guard([&]() -> Status {
    TRY(NotNull(value, "value"));
    if (kind != AUTOTUNE_STRING && kind != AUTOTUNE_BYTES) return Invalid("kind ", kind, " is no text");
    if (size > 0) TRY(NotNull(data, "data"));
    SetText(*value, kind, {data, size});
    return {};
  });
}

int autotune_function_call(const autotune_function* function, const autotune_value* args, int32_t num_args,
                           autotune_value* result) {
  return Guard([&]() -> Status {
    TRY(NotNull(function, "function"));
    TRY(NotNull(result, "result"));
    const std::vector<Value> values = TRY(FromC(args, num_args));
    *result = ToC(TRY(function->function.Call(values)));
    return {};
  });
}

int autotune_function_create(autotune_callback callback, void* context, void (*release)(void* context),
                             autotune_function** out) {
  return Guard([&]() -> Status {
    if (!callback) return Invalid("callback is a null pointer");
    TRY(NotNull(out, "out"));
    const auto shared = std::make_shared<Callback>(callback, context);
    PackedFunc function(CallbackFunction{shared});
    *out = new autotune_function{std::move(function)};
    shared->release = release;
    return {};
  });
}

void* autotune_function_context(const autotune_function* function, autotune_callback callback) {
  const auto* made = function ? function->function.Target<CallbackFunction>() : nullptr;
  return made && made->callback->call == callback ? made->callback->context : nullptr;
}

void autotune_function_free(autotune_function* function) { Free(function); }
const char* autotune_object_type(const autotune_object* object) { return object ? object->type.c_str() : nullptr; }
void autotune_object_free(autotune_object* object) { Free(object); }

int autotune_registry_get(const char* name, autotune_function** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(name, "name"));
    TRY(NotNull(out, "out"));
    const Result<PackedFunc> function = Registry::Global().Get(name);
    if (!function.ok()) return Invalid(function.error().Text());
    *out = new autotune_function{*function};
    return {};
  });
}

int autotune_registry_add(const char* name, const autotune_function* function, int32_t replace) {
  return Guard([&]() -> Status {
    TRY(NotNull(name, "name"));
    TRY(NotNull(function, "function"));
    const Status added = Registry::Global().Add(name, function->function, replace != 0);
    return added.ok() ? Status() : Invalid(added.error().Text());
  });
}

int autotune_registry_remove(const char* name) {
  return Guard([&]() -> Status {
    TRY(NotNull(name, "name"));
    return Registry::Global().Remove(name) ? Status() : Invalid("there is no global function '", name, "'");
  });
}

int autotune_registry_names(autotune_names** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(out, "out"));
    *out = new autotune_names{Registry::Global().Names()};
    return {};
  });
}

int autotune_module_load(const char* path, autotune_module** out) { return autotune_module_load_with(path, 0, out); }

int autotune_module_load_with(const char* path, int32_t threads, autotune_module** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(path, "path"));
    TRY(NotNull(out, "out"));
    if (threads < 0) return Invalid("the number of threads is ", threads);
    *out = NewModule(TRY(LoadModuleTree(path, threads)));
    return {};
  });
}

const char* autotune_module_type(const autotune_module* module) { return module ? module->type.c_str() : nullptr; }

int autotune_module_get_function(const autotune_module* module, const char* name, autotune_function** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(module, "module"));
    TRY(NotNull(name, "name"));
    TRY(NotNull(out, "out"));
    const Result<PackedFunc> function = module->module->GetFunction(name);
    if (!function.ok()) return Invalid(function.error().Text());
    *out = new autotune_function{*function};
    return {};
  });
}

int autotune_module_function_names(const autotune_module* module, autotune_names** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(module, "module"));
    TRY(NotNull(out, "out"));
    auto names = std::make_unique<autotune_names>();
    std::set<std::string> seen;
    CollectNames(*module->module, names->texts, seen);
    *out = names.release();
    return {};
  });
}

void autotune_module_free(autotune_module* module) { Free(module); }

}  // extern "C"
