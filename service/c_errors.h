// Errors of the functions of the compiler library's C header. The runtime library keeps them. Thread-safe.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "service/compiler_c_api.h"
#include "support/error_parts.h"
#include "support/result.h"

namespace autotune {

// Keeps an error as the thread's last one, and returns its code.
inline int KeepLast(const Error& error) {
  autotune_set_last_error(SentenceOf(error).c_str());
  if (error.kind == ErrorKind::kInvalidArgument) return AUTOTUNE_INVALID_ARGUMENT;
  return error.kind == ErrorKind::kOutOfMemory ? AUTOTUNE_OUT_OF_MEMORY : AUTOTUNE_ERROR;
}

// Runs the body of a function: f() returns a Status. No exception leaves it.
template <class F>
int Guarded(F f) noexcept {
  try {
    const Status status = f();
    return status.ok() ? AUTOTUNE_OK : KeepLast(status.error());
  } catch (const std::bad_alloc&) {
    autotune_set_last_error("out of memory");
    return AUTOTUNE_OUT_OF_MEMORY;
  } catch (const std::exception& exception) {
    autotune_set_last_error(exception.what());
    return AUTOTUNE_INTERNAL_ERROR;
  } catch (...) {
    autotune_set_last_error("an unknown exception");
    return AUTOTUNE_INTERNAL_ERROR;
  }
}

inline Error Argument(Error error) {
  error.kind = ErrorKind::kInvalidArgument;
  return error;
}

inline Status Needs(const void* pointer, const char* what) {
  if (pointer) return {};
  return Argument(Err(what, " is a null pointer"));
}

}  // namespace autotune
