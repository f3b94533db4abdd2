#include "tests/law/tree.h"
#include "tests/read.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace autotune::law {

namespace fs = std::filesystem;

std::vector<std::string> ProjectFiles() {
  fs::path root = AUTOTUNE_SOURCE_DIR;
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    std::string name = it->path().filename().string();
    if (it->is_directory()) {
      bool ours = name[0] != '.' && name != "node_modules" && !fs::exists(it->path() / "CMakeCache.txt");
      if (!ours) it.disable_recursion_pending();
    } else {
      files.push_back(it->path().lexically_relative(root).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadProjectFile(const std::string& path) { return test::ReadAll(fs::path(AUTOTUNE_SOURCE_DIR) / path); }

}  // namespace autotune::law
