// Error codes and texts of the C API, and its version.
#include <exception>

#include "api/handles.h"

namespace autotune::api {
namespace {

// The text of the last error of a thread. Without memory for a text, `fixed` points to a constant.
struct LastError {
  std::string text;
  const char* fixed = nullptr;
};
thread_local LastError last_error;

void Keep(const std::string& text) noexcept {
  try {
    last_error.text = text;
    last_error.fixed = nullptr;
  } catch (...) {
    last_error.fixed = "out of memory";
  }
}

}  // namespace

int KeepError(const Error& error) {
  Keep(error.Text());
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
      return AUTOTUNE_INVALID_ARGUMENT;
    case ErrorKind::kOutOfMemory:
      return AUTOTUNE_OUT_OF_MEMORY;
    default:
      return AUTOTUNE_ERROR;
  }
}

int KeepException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    last_error.fixed = "out of memory";
    return AUTOTUNE_OUT_OF_MEMORY;
  } catch (const std::exception& exception) {
    Keep(exception.what());
    return AUTOTUNE_INTERNAL_ERROR;
  } catch (...) {
    Keep("an unknown exception");
    return AUTOTUNE_INTERNAL_ERROR;
  }
}

}  // namespace autotune::api

extern "C" {

const char* autotune_version(void) { return AUTOTUNE_VERSION; }

const char* autotune_last_error(void) {
  const autotune::api::LastError& last = autotune::api::last_error;
  return last.fixed ? last.fixed : last.text.c_str();
}

void autotune_set_last_error(const char* text) { autotune::api::Keep(text ? text : ""); }

}  // extern "C"
