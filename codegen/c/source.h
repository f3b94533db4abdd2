// Source: the source text of a kernel in a language of the C family. A value. Internal to codegen/c.
#pragma once
#include <string>

namespace autotune::c {

struct Source {
  std::string text;
  std::string rejected;  // the contract that the program breaks, if there is no text; else empty
};

}  // namespace autotune::c
