// Names: the C identifiers (codegen/identifiers.h) of one function. Internal to codegen/c.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/name.h"

namespace autotune::c {

// Distinct names, and equal names of different kinds, have distinct identifiers: a variable and a buffer may share a
// name. Not thread-safe.
class Names {
 public:
  // kOwn: variables that the emitter adds to the function.
  enum class Kind { kVar, kBuffer, kOwn };
  // No identifier begins with `prefix` and "_": these are the names of functions that the function calls.
  explicit Names(const std::string& prefix) : prefix_(prefix + "_") {}

  std::string Of(Kind kind, const Name& name);
  // Returns an identifier that no call has returned before, for a new declaration of the name. From now on, Of returns
  // this identifier for the name.
  std::string Fresh(Kind kind, const Name& name);

 private:
  std::string prefix_;
  std::map<std::pair<Kind, Name>, std::string> known_;
  std::set<std::string> used_;
};

}  // namespace autotune::c
