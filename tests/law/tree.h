// The project's own files, for tests that look at them. Not for tests of fabricated ones.
#pragma once
#include <string>
#include <vector>

namespace autotune::law {

// All files of the source tree relative to its root, sorted, without build folders, hidden folders and node_modules.
std::vector<std::string> ProjectFiles();
std::string ReadProjectFile(const std::string& path);

}  // namespace autotune::law
