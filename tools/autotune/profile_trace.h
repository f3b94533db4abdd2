// The trace of `autotune bench --profile --trace FILE`: the profile, and when kernels and threads worked in a few runs.
#pragma once
#include <string>
#include <vector>

#include "runtime/graph_executor.h"
#include "tools/autotune/profile.h"
#include "tools/autotune/trace_file.h"

namespace autotune::tools {

// Adds a process with one lane: the kernels one after another, each as long as its median time. So the lane is as long
// as the sum of the profile. `rows` are in order of execution.
void AddProfile(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, TraceFile& file);

// Adds a process with the lane "network", which has the runs and in each of them its kernels, and a lane for each
// thread of the host, which has the parts of the kernels' parallel loops that it ran.
void AddRuns(const std::vector<ProfileRow>& rows, const std::vector<RunTrace>& runs, TraceFile& file);

}  // namespace autotune::tools
