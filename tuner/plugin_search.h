// A search whose candidates a process chooses (tuner/plugin.h). The process learns of each task once, gets every new
// result before it is asked, and answers with decisions; this program replays and checks them. Its answers are
// untrusted: a sketch that does not exist or a decision that its knob cannot take is an error, which ends the run. If
// an answer comes too late, the search of MakeEvolutionarySearch chooses that batch.
#pragma once
#include <memory>

#include "tuner/plugin.h"
#include "tuner/tune.h"

namespace autotune {

// Returns the factory of such searches. All of them share the plug-in and what it was told, so use them one after the
// other. `plugin` must have the role "strategy".
SearchFactory MakePluginSearch(std::shared_ptr<Plugin> plugin);

}  // namespace autotune
