#include "package/cache_folder.h"

#include <cstdlib>

namespace autotune {

std::string UserCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return std::string(cache) + "/autotune";
  const char* home = std::getenv("HOME");
  return std::string(home && *home ? home : "/var/tmp") + "/.cache/autotune";
}

}  // namespace autotune
