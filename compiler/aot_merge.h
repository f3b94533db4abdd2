// Merges the C sources of a library's kernels (codegen/c) into one translation unit. Stateless. Internal to compiler/.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace autotune {

struct MergedSources {
  std::string text;                              // all declarations; every function is static
  std::string end;                               // what must follow all code of the unit
  std::map<std::string, std::string> functions;  // C names of the kernels' functions, by symbol: "k0_add.raw"
};

// Merges the sources. What several of them declare occurs once. The entry points that check their arguments and the
// metadata, which only a loader needs, are left out.
MergedSources MergeSources(const std::vector<std::string>& sources);

}  // namespace autotune
