// The dependency rules: which folder may include which other. Pure functions over file names and texts, so that tests
// can check each rule on fabricated sources. A finding is a line "file:line: what is wrong". Reads only #include lines;
// not a parser of C++.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace autotune::law {

// Returns the layers, lowest first. The components of one layer may not include each other.
const std::vector<std::vector<std::string>>& Layers();

struct Source {
  std::string path;  // relative to the root, "rpc/wire.cc"
  std::string text;
};

struct Component {
  std::string name;
  std::set<std::string> deps;
  std::string file;  // the component's CMakeLists.txt
  int line = 0;
};
using Components = std::map<std::string, Component>;  // keys: folders

// Adds the component(...) line of each CMakeLists.txt among `files` to `components`.
std::vector<std::string> ParseComponents(const std::vector<Source>& files, Components& components);
// Checks that every dependency exists and is in a lower layer, and that there are no cycles.
std::vector<std::string> CheckLayers(const Components& components);
// Checks that every include of a source names the standard library, the system, the source's own folder, a folder among
// its component's dependencies, or a third-party package. Only the doors of a package may include it: the files and
// folders that tests/law/law.cc lists for the package. Sources outside the components (tests, benchmarks, examples) may
// include every component.
std::vector<std::string> CheckIncludes(const std::vector<Source>& sources, const Components& components);

}  // namespace autotune::law
