#include "support/state_folder.h"

#include <cstdlib>

namespace autotune {

std::string StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = state && *state ? state : home && *home ? std::string(home) + "/.local/state" : "/var/tmp";
  return folder + "/autotune";
}

}  // namespace autotune
