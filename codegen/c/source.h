// Source: the text that a code generator of the C family makes of a kernel. A value. Internal to codegen/c.
#pragma once
#include <string>

namespace autotune::c {

struct Source {
  std::string text;
  std::string rejected;  // why there is none: a broken contract of the program
};

}  // namespace autotune::c
