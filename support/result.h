// Result<T>: a value, or an error that a user can act on. For bad input, a broken environment and rejected candidates;
// CHECK is for our own bugs. Callers add notes to an error that they return ("while replaying step 7: split(...)").
// A value type; as thread-safe as T.
#pragma once
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/check.h"

namespace autotune {

// The kinds of errors that some caller handles differently. Callers test the kind, never the message.
enum class ErrorKind {
  kOther,
  kOutOfMemory,      // this machine has too little memory
  kRejected,         // a candidate breaks a contract of its schedule, which is normal in a search
  kStopped,          // a request to stop ended a wait
  kInvalidArgument,  // a program that uses the library passed a wrong argument
};

// One line that says what is wrong and what to do; notes, innermost first, say where.
struct Error {
  std::string message;
  std::vector<std::string> notes;
  ErrorKind kind = ErrorKind::kOther;
  // The message without the names of the file and of its parts, so that equal causes can be counted. Empty if the
  // message has no such names.
  std::string cause;

  Error() = default;
  explicit Error(std::string text, ErrorKind its_kind = ErrorKind::kOther) : message(std::move(text)), kind(its_kind) {}
  Error&& Note(std::string note) && {
    notes.push_back(std::move(note));
    return std::move(*this);
  }
  // "message (note; note)"
  std::string Text() const {
    std::string text = message;
    for (size_t i = 0; i < notes.size(); ++i) text += (i ? "; " : " (") + notes[i];
    return notes.empty() ? text : text + ")";
  }
  std::string Cause() const { return cause.empty() ? message : cause; }
};

// Err("cannot open ", path, ": ", reason)
template <class... Parts>
[[nodiscard]] Error Err(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return Error(out.str());
}

inline Error WithCause(std::string message, std::string cause) {
  Error error(std::move(message));
  error.cause = std::move(cause);
  return error;
}

// OutOfMemory("cannot allocate ", bytes, " bytes for weights")
template <class... Parts>
[[nodiscard]] Error OutOfMemory(const Parts&... parts) {
  Error error = Err("out of memory: ", parts...);
  error.kind = ErrorKind::kOutOfMemory;
  return error;
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const T& value() const& { return CheckOk(), std::get<0>(state_); }
  T& value() & { return CheckOk(), std::get<0>(state_); }
  // By value, so that a range-based for loop over the value of a temporary Result is safe.
  T value() && { return CheckOk(), std::get<0>(std::move(state_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  void CheckOk() const { CHECK(ok()) << "value() of an error: " << std::get<1>(state_).Text(); }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  void value() const { CHECK(ok()) << "value() of an error: " << error_->Text(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace autotune

// auto x = TRY(F());   TRY(G());   — returns the error to the caller.
// Do not use TRY inside braces after a member that owns memory, as in Pair{name, TRY(F())}. When TRY returns, gcc 12
// does not destroy the members that are already built, which leaks. Assign the value to a variable first.
#define TRY(...)                                                  \
  ({                                                              \
    auto try_result_ = (__VA_ARGS__);                             \
    if (!try_result_.ok()) return std::move(try_result_).error(); \
    ::autotune::detail::Unwrap(std::move(try_result_));           \
  })
// TRY_NOTE(F(), "while ...") is TRY that adds a note to the error.
#define TRY_NOTE(expression, note)                                           \
  ({                                                                         \
    auto try_result_ = (expression);                                         \
    if (!try_result_.ok()) return std::move(try_result_).error().Note(note); \
    ::autotune::detail::Unwrap(std::move(try_result_));                      \
  })

namespace autotune::detail {
template <class T>
T Unwrap(Result<T>&& result) {
  if constexpr (std::is_void_v<T>) {
    return;
  } else {
    return std::move(result).value();
  }
}
}  // namespace autotune::detail
