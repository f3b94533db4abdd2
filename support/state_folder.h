// Where programs keep what must outlive them, but is no user's data. Thread-safe.
#pragma once
#include <string>

namespace autotune {

// Returns autotune/ in $XDG_STATE_HOME, else in ~/.local/state, else in /var/tmp. It may not exist yet.
std::string StateFolder();

}  // namespace autotune
