// Where programs keep what must outlive them, but is no user's data. Thread-safe.
#pragma once
#include <string>

#include "support/result.h"

namespace autotune {

// Returns autotune/ in $XDG_STATE_HOME, else in ~/.local/state, else in /var/tmp. It may not exist yet.
std::string StateFolder();
// Returns the folder of this user's sockets: autotune/ in $XDG_RUNTIME_DIR, else /tmp/autotune-UID. It may not exist
// yet.
std::string RuntimeFolder();
// Makes a folder that only its owner may enter, and the folders above it. Error: it cannot be made, another user owns
// it, or others may enter it.
Status MakePrivateFolder(const std::string& path);

}  // namespace autotune
