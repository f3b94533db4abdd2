#include "codegen/c/names.h"

#include "codegen/identifiers.h"

namespace autotune::c {

std::string Names::Of(Kind kind, const Name& name) {
  auto known = known_.find({kind, name});
  return known == known_.end() ? Fresh(kind, name) : known->second;
}

std::string Names::Fresh(Kind kind, const Name& name) {
  std::string stem = IdentifierOf(name.str());
  if (stem.starts_with(prefix_)) stem = "v" + stem;
  std::string id = stem;
  for (int i = 2; !used_.insert(id).second; ++i) id = stem + "_" + std::to_string(i);
  return known_[{kind, name}] = id;
}

}  // namespace autotune::c
