// For tests that look for two definitions of one thing: what a C++ source defines at namespace scope, and what several
// sources define. Not a parser of C++.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/law/law.h"

namespace autotune::law {

// A brace at namespace scope, other than that of a namespace.
struct Definition {
  std::string head;  // the code before the brace, from the end of the statement before
  std::vector<std::string>
      namespaces;  // around it, the outermost first; "" for an unnamed one, "extern" for extern "C"
};
std::vector<Definition> DefinitionsOf(const std::string& text);

// Returns the name of what a definition defines; "" if it does not count.
using NameOf = std::function<std::string(const Definition&)>;
std::set<std::string> NamesOf(const std::string& text, const NameOf& name_of);

using Places = std::map<std::string, std::vector<std::string>>;  // for each name, the files that define it
// Collects what the components' sources define.
Places PlacesOf(const std::vector<Source>& sources, const NameOf& name_of);
// The same for all sources of the project.
Places PlacesInProject(const NameOf& name_of);
// Returns "Uses(Expr, Name): a.cc b.cc" for each name with several definitions.
std::vector<std::string> Twins(const Places& places);

}  // namespace autotune::law
