// The C++ side of the C API's handles, errors and values (api/c_api.h). Internal to api/.
#pragma once
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/c_api.h"
#include "api/session.h"
#include "runtime/packed_func.h"
#include "runtime/tensor.h"
#include "runtime/thread_pool.h"
#include "support/result.h"

struct autotune_names {
  std::vector<std::string> texts;
};
struct autotune_tensor {
  autotune::Tensor tensor;
};
struct autotune_function {
  autotune::PackedFunc function;
};
struct autotune_object {
  autotune::ObjectRef object;
  std::string type;
};
struct autotune_module {
  autotune::Module module;
  std::string type;
};
struct autotune_pool {
  std::shared_ptr<autotune::ThreadPool> pool;
};
struct autotune_executor {
  std::unique_ptr<autotune::Session> session;
};

namespace autotune::api {

// An error of the caller of the API.
template <class... Parts>
Error Invalid(const Parts&... parts) {
  Error error = Err(parts...);
  error.kind = ErrorKind::kInvalidArgument;
  return error;
}

// Keeps an error as the thread's last one, and returns its code.
int KeepError(const Error& error);
// The same for the exception that is being handled.
int KeepException() noexcept;

// Runs the body of a function of the API: f() returns a Status. No exception leaves it.
template <class F>
int Guard(F f) noexcept {
  try {
    const Status status = f();
    return status.ok() ? AUTOTUNE_OK : KeepError(status.error());
  } catch (...) {
    return KeepException();
  }
}

// Frees a handle. Destructors of objects of other libraries (deleters, callbacks) must not throw.
template <class T>
void Free(T* handle) noexcept {
  delete handle;
}

inline Status NotNull(const void* pointer, const char* what) {
  if (pointer) return {};
  return Invalid(what, " is a null pointer");
}

inline autotune_dtype ToC(DLDataType type) { return {type.code, type.bits, type.lanes}; }
inline DLDataType FromC(autotune_dtype type) { return {type.code, type.bits, type.lanes}; }
inline autotune_device ToC(DLDevice device) { return {static_cast<int32_t>(device.device_type), device.device_id}; }
inline DLDevice FromC(autotune_device device) { return {static_cast<DLDeviceType>(device.type), device.id}; }

autotune_module* NewModule(Module module);

// Makes a C value that owns new handles and copies of texts.
autotune_value ToC(const Value& value);
// Makes a value of a C value, which keeps its handles. An error for an unknown kind and for null handles.
Result<Value> FromC(const autotune_value& value);
Result<std::vector<Value>> FromC(const autotune_value* values, int32_t count);

}  // namespace autotune::api
