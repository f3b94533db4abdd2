// Parses the options --shape and --dim.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "frontend/onnx/import.h"

namespace autotune {

namespace {
// Parses an extent of `option`. 0 is allowed, since the past of a first prompt has no tokens. Returns nothing if the
// text is no number, and an error if the number is no extent.
Result<std::optional<int64_t>> ParseExtent(std::string_view text, const std::string& option) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t extent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::optional<int64_t>();
  if (error != std::errc() || extent < 0 || extent > kMost)
    return Err(option, ": ", text, " is no size of a dimension; it must be 0 to ", kMost);
  return std::optional<int64_t>(extent);
}
}  // namespace

Result<std::pair<std::string, int64_t>> ParseDimOption(std::string_view text) {
  size_t equals = text.rfind('=');
  std::optional<int64_t> extent;
  if (equals != 0 && equals != std::string_view::npos)
    extent = TRY(ParseExtent(text.substr(equals + 1), "--dim " + std::string(text)));
  if (!extent) return Err("--dim ", text, " is not of the form name=128");
  return std::pair{std::string(text.substr(0, equals)), *extent};
}

Result<std::pair<std::string, graph::Shape>> ParseShapeOption(std::string_view text) {
  auto bad = [&] { return Err("--shape ", text, " is not of the form name:1,3,224,224"); };
  size_t colon = text.rfind(':');
  if (colon == 0 || colon == std::string_view::npos) return bad();
  graph::Shape shape;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::optional<int64_t> extent = TRY(ParseExtent(rest.substr(0, comma), "--shape " + std::string(text)));
    if (!extent) return bad();
    shape.push_back(*extent);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  return std::pair{std::string(text.substr(0, colon)), std::move(shape)};
}

}  // namespace autotune
