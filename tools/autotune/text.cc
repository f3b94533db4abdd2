#include "tools/autotune/text.h"

#include <algorithm>

#include "support/terminal.h"

namespace autotune::tools {

std::string Row(const std::string& columns, const std::string& name, int width) {
  return columns + (width > 0 ? CutToWidth(name, std::max(0, width - TextWidth(columns))) : name) + "\n";
}

}  // namespace autotune::tools
