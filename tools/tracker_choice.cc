#include "tools/tracker_choice.h"

namespace autotune::tools {

void AddTrackerOptions(CLI::App& app, TrackerChoice& choice) {
  app.add_option("--join", choice.join,
                 "Join file of a farm, or - for standard input (default: AUTOTUNE_JOIN, else "
                 "~/.config/autotune/default.join)");
  app.add_option("--tracker", choice.tracker,
                 "Socket of a tracker on this host (default: AUTOTUNE_TRACKER, else that of rpc_tracker)");
}

void AddAdminOptions(CLI::App& app, TrackerChoice& choice) {
  AddTrackerOptions(app, choice);
  app.add_option("--state", choice.state, "State folder of a tracker of this host");
}

}  // namespace autotune::tools
