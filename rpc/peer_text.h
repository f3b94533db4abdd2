// Makes the texts of peers printable. Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "support/utf8.h"

namespace autotune::rpc {

// Returns a peer's text for one line of output: cut to `most` bytes, with control characters escaped.
inline std::string Shown(std::string_view text, size_t most) {
  const std::string_view shown = CutText(text, most);
  return OneLine(shown) + (shown.size() < text.size() ? "..." : "");
}

}  // namespace autotune::rpc
