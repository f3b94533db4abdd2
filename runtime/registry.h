// Registry: global functions by name. Users and the compiler add functions. The runtime's own functions are one list in
// registry.cc. Thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/packed_func.h"

namespace autotune {

class Registry {
 public:
  // Returns the registry of the process. The first call adds the runtime's own functions.
  static Registry& Global();

  // Adds a function. Returns an error if the name is taken and `replace` is false.
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
