// Registry: global functions by name, open to users and to the compiler's own functions. What the runtime itself offers
// is one explicit list in registry.cc. Thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/packed_func.h"

namespace autotune {

class Registry {
 public:
  // Holds the runtime's own functions from the first call on.
  static Registry& Global();

  // An error if the name is taken, unless `replace`.
  Status Add(std::string name, PackedFunc function, bool replace = false);
  bool Remove(std::string_view name);  // false if there was none
  Result<PackedFunc> Get(std::string_view name) const;
  std::vector<std::string> Names() const;  // sorted

  Registry();
  ~Registry();
  Registry(const Registry&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autotune
