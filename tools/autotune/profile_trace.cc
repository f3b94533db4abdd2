#include "tools/autotune/profile_trace.h"

#include <algorithm>

#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

constexpr double kBetweenRuns = 20e-6;  // seconds; runs are shown one after another

Json ArgsOf(const ProfileRow& row) {
  Json args;
  args["task"] = row.task;
  args["label"] = row.label;
  args["median_us"] = row.seconds * 1e6;
  args["min_us"] = row.least * 1e6;
  args["flops"] = row.flops;
  args["bytes"] = row.bytes;
  if (!row.roof.bound.empty()) {
    args["bound"] = row.roof.bound;
    args["roof_us"] = row.roof.seconds * 1e6;
  }
  return args;
}

// Returns the kernel that ran at this time of the run.
size_t KernelAt(const RunTrace& run, double time) {
  const auto later = std::ranges::upper_bound(run.kernels, time, {}, &RunTrace::Span::begin);
  return later == run.kernels.begin() ? 0 : static_cast<size_t>(later - run.kernels.begin()) - 1;
}

}  // namespace

void AddProfile(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, TraceFile& file) {
  const int64_t process = file.AddProcess("profile: the median time of each kernel");
  const int64_t lane = file.AddLane(process, "kernels");
  Json args;
  args["network_us"] = balance.network * 1e6;
  args["explanation"] = balance.explanation;
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.seconds;
  file.AddSpan(process, lane, "all kernels", 0, sum, std::move(args));
  double begin = 0;
  for (const ProfileRow& row : rows) {
    file.AddSpan(process, lane, row.node, begin, row.seconds, ArgsOf(row));
    begin += row.seconds;
  }
}

void AddRuns(const std::vector<ProfileRow>& rows, const std::vector<RunTrace>& runs, TraceFile& file) {
  if (runs.empty()) return;
  const int64_t process = file.AddProcess(CountText(static_cast<int64_t>(runs.size()), "run") + ", kernel by kernel");
  const int64_t network = file.AddLane(process, "network");
  std::vector<int64_t> lanes;
  for (size_t i = 0; i < runs[0].threads.size(); ++i)
    lanes.push_back(file.AddLane(process, i == 0 ? "thread 0 (calls the kernels)" : "thread " + std::to_string(i)));
  double start = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunTrace& run = runs[i];
    file.AddSpan(process, network, "run " + std::to_string(i + 1), start, run.seconds);
    for (size_t k = 0; k < run.kernels.size(); ++k)
      file.AddSpan(process, network, rows[k].node, start + run.kernels[k].begin, run.kernels[k].seconds,
                   ArgsOf(rows[k]));
    for (size_t t = 0; t < lanes.size(); ++t) {
      for (const RunTrace::Span& span : run.threads[t]) {
        const ProfileRow& row = rows[KernelAt(run, span.begin)];
        Json args;
        args["task"] = row.task;
        file.AddSpan(process, lanes[t], row.node, start + span.begin, span.seconds, std::move(args));
      }
    }
    start += run.seconds + kBetweenRuns;
  }
}

}  // namespace autotune::tools
