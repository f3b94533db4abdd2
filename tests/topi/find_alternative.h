// FindAlternative: an alternative of an operator by its name. Header-only, for tests.
#pragma once
#include "topi/alternatives.h"

namespace autotune::topi {

// The alternative of that name in a list, or null.
template <class Alternative>
const Alternative* FindAlternative(std::span<const Alternative> list, std::string_view name) {
  for (const Alternative& a : list) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace autotune::topi
