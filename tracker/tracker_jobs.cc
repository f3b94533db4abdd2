// What tuners tell the tracker about their runs. It only passes this on to the page: no decision depends on it.
#include <algorithm>

#include "rpc/rules.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

constexpr size_t kMostJobs = 200;                              // that are remembered [chosen]
constexpr int64_t kRememberJobMs = int64_t{24} * 3600 * 1000;  // after their last report [chosen]

}  // namespace

void TrackerState::OnJobReport(const rpc::From& from, const rpc::Message& message, int64_t now) {
  const rpc::JobReport& report = *message.As<rpc::JobReport>();
  if (report.run.empty()) {
    return Send(from.peer, message.request, rpc::Refusal{rpc::code::kMalformed, "a report must name its run"});
  }
  auto job = jobs_.find(report.run);
  if (job == jobs_.end()) {
    if (jobs_.size() >= kMostJobs) {
      // One that has ended goes first, then the one that has been silent for longest.
      jobs_.erase(std::ranges::min_element(jobs_, {}, [](const auto& known) {
        return std::pair(known.second.report.state == rpc::job_state::kRunning, known.second.heard);
      }));
    }
    job = jobs_.emplace(report.run, Job{.identity = from.identity, .began = now}).first;
  } else if (!Owns(from, job->second.identity)) {
    return Send(from.peer, message.request, NotYours());
  }
  job->second.report = report;
  if (!from.identity.empty()) job->second.report.client_name = ClientNameOf(from.name, report.client_name);
  for (std::string* url : {&job->second.report.page, &job->second.report.report})
    if (!rpc::IsWebUrl(*url)) url->clear();
  job->second.here = from.address.empty() || from.address == "[::1]" || from.address.starts_with("127.");
  job->second.heard = now;
}

void TrackerState::ForgetJobs(int64_t now) {
  std::erase_if(jobs_, [&](const auto& job) { return now - job.second.heard >= kRememberJobMs; });
}

std::vector<FarmJob> TrackerState::Jobs(int64_t now) const {
  std::vector<FarmJob> jobs;
  for (const auto& [run, job] : jobs_) jobs.push_back({job.report, now - job.began, now - job.heard, job.here});
  return jobs;
}

}  // namespace autotune
