// The parts of a page before and after its data. embed.cmake writes their definition.
#pragma once
#include <string_view>

namespace autotune::tools::report {

extern const std::string_view kPageBegin, kPageEnd;

}  // namespace autotune::tools::report
