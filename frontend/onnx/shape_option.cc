// Parses the options --shape and --dim.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "frontend/onnx/import.h"

namespace autotune {

namespace {
// Parses an extent. 0 is allowed, since the past of a first prompt has no tokens.
std::optional<int64_t> ParseExtent(std::string_view text) {
  int64_t extent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (extent < 0 || extent > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return extent;
}
}  // namespace

Result<std::pair<std::string, int64_t>> ParseDimOption(std::string_view text) {
  size_t equals = text.rfind('=');
  std::optional<int64_t> extent;
  if (equals != 0 && equals != std::string_view::npos) extent = ParseExtent(text.substr(equals + 1));
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
    std::optional<int64_t> extent = ParseExtent(rest.substr(0, comma));
    if (!extent) return bad();
    shape.push_back(*extent);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  return std::pair{std::string(text.substr(0, colon)), std::move(shape)};
}

}  // namespace autotune
