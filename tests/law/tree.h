// The project's own files, for tests that check them. Tests of fabricated sources do not use this header.
#pragma once
#include <string>
#include <vector>

namespace autotune::law {

// All files of the source tree relative to its root, sorted, without build folders, hidden folders and node_modules.
std::vector<std::string> ProjectFiles();
std::string ReadProjectFile(const std::string& path);

}  // namespace autotune::law
