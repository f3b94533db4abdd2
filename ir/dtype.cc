#include "ir/dtype.h"

#include <charconv>

namespace autotune {

std::string DType::Text() const {
  std::string text;
  switch (code) {
    case TypeCode::kInt:
      text = "i" + std::to_string(bits);
      break;
    case TypeCode::kUInt:
      text = "u" + std::to_string(bits);
      break;
    case TypeCode::kFloat:
      text = "f" + std::to_string(bits);
      break;
    case TypeCode::kBFloat:
      text = "bf16";
      break;
    case TypeCode::kBool:
      text = "bool";
      break;
    case TypeCode::kHandle:
      text = "handle";
      break;
    case TypeCode::kIndex:
      text = "index";
      break;
  }
  return lanes == 1 ? text : text + "x" + std::to_string(lanes);
}

std::optional<DType> DType::Parse(std::string_view text) {
  auto number = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 1) return std::nullopt;
    return value;
  };
  // The number of lanes follows the last 'x'. The name "index" ends with an 'x' too, without a number behind it.
  DType type;
  size_t x = text.rfind('x');
  int lanes = 1;
  if (x != std::string_view::npos && x + 1 < text.size()) {
    auto n = number(text.substr(x + 1));
    if (!n || *n > 1024 || *n < 2) return std::nullopt;
    lanes = *n;
    text = text.substr(0, x);
  }
  if (text == "bool") {
    type = Bool();
  } else if (text == "handle") {
    type = Handle();
  } else if (text == "index") {
    type = Index();
  } else if (text == "bf16") {
    type = BFloat16();
  } else if (!text.empty() && (text[0] == 'i' || text[0] == 'u' || text[0] == 'f')) {
    auto bits = number(text.substr(1));
    if (!bits || (*bits != 8 && *bits != 16 && *bits != 32 && *bits != 64)) return std::nullopt;
    if (text[0] == 'f' && *bits == 8) return std::nullopt;
    type = text[0] == 'i' ? Int(*bits) : text[0] == 'u' ? UInt(*bits) : Float(*bits);
  } else {
    return std::nullopt;
  }
  return type.WithLanes(lanes);
}

}  // namespace autotune
