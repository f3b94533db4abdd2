// Names: the C identifiers (codegen/identifiers.h) of one function. Internal to codegen/c.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/name.h"

namespace autotune::c {

// Equal names of one kind have one identifier, and distinct ones have distinct ones:
// a variable and a buffer may share a name. Not thread-safe.
class Names {
 public:
  // kOwn: of what the emitted function declares for itself.
  enum class Kind { kVar, kBuffer, kOwn };
  // No identifier begins with `prefix` and "_": the functions that this one calls do.
  explicit Names(const std::string& prefix) : prefix_(prefix + "_") {}

  std::string Of(Kind kind, const Name& name);
  // An identifier that no call has returned before, which Of gives from now on: for what is declared anew.
  std::string Fresh(Kind kind, const Name& name);

 private:
  std::string prefix_;
  std::map<std::pair<Kind, Name>, std::string> known_;
  std::set<std::string> used_;
};

}  // namespace autotune::c
