// For tests: finds an alternative of an operator by its name. Header-only.
#pragma once
#include "topi/alternatives.h"

namespace autotune::topi {

// Returns the alternative of that name in a list; null if there is none.
template <class Alternative>
const Alternative* FindAlternative(std::span<const Alternative> list, std::string_view name) {
  for (const Alternative& a : list) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace autotune::topi
