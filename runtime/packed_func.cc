#include "runtime/packed_func.h"

namespace autotune {

std::string_view detail::ValueTypeName(size_t index) {
  static constexpr std::string_view kNames[] = {"null",   "int",    "float",  "string",   "bytes", "dtype",
                                                "device", "tensor", "module", "function", "object"};
  static_assert(std::size(kNames) == std::variant_size_v<Value::Variant>);
  return kNames[index];
}

std::string_view Value::TypeName() const { return detail::ValueTypeName(value_.index()); }

Error detail::ValueMismatch(std::string_view wanted, const Value& got) {
  return Err("expected ", wanted, ", got ", got.TypeName());
}

Result<Value> PackedFunc::Call(std::span<const Value> args) const {
  if (!body_) return Err("call of a null function");
  return (*body_)(args);
}

}  // namespace autotune
