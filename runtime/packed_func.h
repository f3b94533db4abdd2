// PackedFunc: a type-erased function on Values. Modules and other languages call each other by PackedFuncs without
// sharing C++ types. Values and functions are cheap handles and may be copied on any thread. Each function decides
// whether calls may run concurrently. Kernels have another interface, the ABI of runtime/abi.h.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/tensor.h"
#include "support/result.h"

namespace autotune {

class ModuleNode;
class Value;
using Module = std::shared_ptr<ModuleNode>;  // runtime/module.h; null is no module

// Base class of all other values that functions pass by handle. `TypeKey` tells the receiver the type.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view TypeKey() const = 0;
};
using ObjectRef = std::shared_ptr<Object>;

class PackedFunc {
 public:
  using Body = std::function<Result<Value>(std::span<const Value> args)>;
  PackedFunc() = default;  // null
  // Takes a callable with Body's signature. (A template, since nothing converts to Body while Value is incomplete.)
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PackedFunc>) explicit PackedFunc(F f);

  // Wraps f(a, b, ...), which returns nothing, a value, a Result or a Status. A call with another number of arguments
  // or other types returns an error that names the argument.
  template <class F>
  static PackedFunc Of(F f);

  // Returns the callable that this function was made of, if it has type F; else null.
  template <class F>
  const F* Target() const {
    return body_ ? body_->template target<F>() : nullptr;
  }
  explicit operator bool() const;
  Result<Value> Call(std::span<const Value> args) const;
  template <class... Args>
  Result<Value> operator()(Args&&... args) const;

 private:
  std::shared_ptr<const Body> body_;
};

struct Bytes {
  std::string data;
  bool operator==(const Bytes&) const = default;
};

class Value {
 public:
  using Variant = std::variant<std::monostate, int64_t, double, std::string, Bytes, DLDataType, DLDevice, Tensor,
                               Module, PackedFunc, ObjectRef>;

  Value() = default;  // null
  Value(std::nullptr_t) {}
  template <class T>
  requires(std::is_integral_v<T>)  // bool too: 0 or 1
      Value(T value)
      : value_(static_cast<int64_t>(value)) {}
  Value(double value) : value_(value) {}
  Value(std::string value) : value_(std::move(value)) {}
  Value(std::string_view value) : value_(std::string(value)) {}
  Value(const char* value) : value_(std::string(value)) {}
  Value(Bytes value) : value_(std::move(value)) {}
  Value(DLDataType value) : value_(value) {}
  Value(DLDevice value) : value_(value) {}
  Value(Tensor value) : value_(std::move(value)) {}
  Value(Module value) : value_(std::move(value)) {}
  Value(PackedFunc value) : value_(std::move(value)) {}
  Value(ObjectRef value) : value_(std::move(value)) {}

  bool IsNull() const { return std::holds_alternative<std::monostate>(value_); }
  std::string_view TypeName() const;  // "int", "tensor", ...
  template <class T>
  const T* If() const {
    return std::get_if<T>(&value_);
  }
  // Converts the value to T: one of the alternatives, any integer type (an error if the value does not fit), bool,
  // float or double (integers are converted), or Value itself.
  template <class T>
  Result<T> As() const;
  const Variant& variant() const { return value_; }

 private:
  Variant value_;
};

namespace detail {
Error ValueMismatch(std::string_view wanted, const Value& got);
std::string_view ValueTypeName(size_t index);

template <class T, class V, size_t I = 0>
constexpr size_t AlternativeOf() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, V>, T>) {
    return I;
  } else {
    return AlternativeOf<T, V, I + 1>();
  }
}

template <class R>
Result<Value> ToValue(R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_same_v<T, Status>) {
    if (!result.ok()) return std::move(result).error();
    return Value();
  } else if constexpr (requires {
                         result.error();
                         result.value();
                       }) {
    if (!result.ok()) return std::move(result).error();
    return Value(std::move(result).value());
  } else {
    return Value(std::forward<R>(result));
  }
}

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Return = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

template <class T>
Result<T> Argument(std::span<const Value> args, size_t i) {
  return TRY_NOTE(args[i].As<T>(), "argument " + std::to_string(i));
}
}  // namespace detail

template <class F>
requires(!std::is_same_v<std::remove_cvref_t<F>, PackedFunc>) PackedFunc::PackedFunc(F f)
    : body_(std::make_shared<const Body>(std::move(f))) {}

inline PackedFunc::operator bool() const { return body_ != nullptr; }

template <class T>
Result<T> Value::As() const {
  if constexpr (std::is_same_v<T, Value>) {
    return *this;
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t* v = If<int64_t>();
    if (!v || static_cast<int64_t>(static_cast<T>(*v)) != *v)
      return detail::ValueMismatch("an integer in range", *this);
    return static_cast<T>(*v);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (const int64_t* v = If<int64_t>()) return static_cast<T>(*v);
    if (const double* v = If<double>()) return static_cast<T>(*v);
    return detail::ValueMismatch("a number", *this);
  } else {
    const T* v = If<T>();
    if (!v) return detail::ValueMismatch(detail::ValueTypeName(detail::AlternativeOf<T, Variant>()), *this);
    return *v;
  }
}

template <class... Args>
Result<Value> PackedFunc::operator()(Args&&... args) const {
  std::vector<Value> values;
  values.reserve(sizeof...(args));
  (values.emplace_back(std::forward<Args>(args)), ...);
  return Call(values);
}

template <class F>
PackedFunc PackedFunc::Of(F f) {
  using S = detail::Signature<F>;
  return PackedFunc([f = std::move(f)](std::span<const Value> args) mutable -> Result<Value> {
    constexpr size_t kArity = std::tuple_size_v<typename S::Args>;
    if (args.size() != kArity) return Err("expected ", kArity, " arguments, got ", args.size());
    return [&]<size_t... I>(std::index_sequence<I...>)->Result<Value> {
      typename S::Args values;
      Status status;
      [[maybe_unused]] auto take = [&]<size_t K>(std::integral_constant<size_t, K>) {
        if (!status.ok()) return;
        auto value = detail::Argument<std::tuple_element_t<K, typename S::Args>>(args, K);
        if (value.ok()) {
          std::get<K>(values) = std::move(value).value();
        } else {
          status = std::move(value).error();
        }
      };
      (take(std::integral_constant<size_t, I>()), ...);
      if (!status.ok()) return std::move(status).error();
      if constexpr (std::is_void_v<typename S::Return>) {
        f(std::get<I>(values)...);
        return Value();
      } else {
        return detail::ToValue(f(std::get<I>(values)...));
      }
    }
    (std::make_index_sequence<kArity>());
  });
}

}  // namespace autotune
