// The dependency law: which folder may include what. Pure functions over file names and texts, so that each rule is
// tested on fabricated sources too. Findings are lines "file:line: what is wrong". Not a parser of C++: it reads
// #include lines.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace autotune::law {

// The layers, lowest first; the names in one row are siblings, which may not include each other.
const std::vector<std::vector<std::string>>& Layers();

struct Source {
  std::string path;  // relative to the root, "rpc/wire.cc"
  std::string text;
};

struct Component {
  std::string name;
  std::set<std::string> deps;
  std::string file;  // its CMakeLists.txt
  int line = 0;
};
using Components = std::map<std::string, Component>;  // by folder

// Reads the component(...) line of each CMakeLists.txt among `files`.
std::vector<std::string> ParseComponents(const std::vector<Source>& files, Components& components);
// Every dependency exists and lies in a lower layer; there are no circles.
std::vector<std::string> CheckLayers(const Components& components);
// Every include of a source names the standard library, the system, its own folder, a folder its component depends on,
// or a third-party package whose door this file is.
std::vector<std::string> CheckIncludes(const std::vector<Source>& sources, const Components& components);

}  // namespace autotune::law
