// Where programs keep what they can make again. Thread-safe.
#pragma once
#include <string>

namespace autotune {

// Returns autotune/ in $XDG_CACHE_HOME, else in ~/.cache. It may not exist yet.
std::string UserCacheFolder();

}  // namespace autotune
