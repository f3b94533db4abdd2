#include "tools/live/farm_view.h"

#include <algorithm>
#include <cstdlib>

#include "http/metrics_text.h"
#include "tracker/status_of_key.h"

namespace autotune::tools {
namespace {

constexpr int64_t kHourMs = 3600 * 1000;

// Returns the earlier value if the new one differs by rounding only: two clocks made it.
int64_t Steady(int64_t value, int64_t earlier) { return std::abs(value - earlier) <= 20 ? earlier : value; }

char LetterOf(const std::string& state) {
  namespace is = rpc::device_state;
  if (state == is::kFree) return 'f';
  if (state == is::kBusy) return 'b';
  if (state == is::kDrained || state == is::kLocked) return 'h';
  if (state == is::kStarting) return 's';
  return state == is::kUnreachable || state == is::kQuarantined ? 'x' : '.';
}

// Texts that are empty are left out.
void Put(Json::Object& object, const char* name, const std::string& text) {
  if (!text.empty()) object.emplace(name, text);
}

}  // namespace

void HourStrip::Add(char letter, int64_t now) {
  const int64_t slot = now / kSlotMs;
  if (slot < slot_) return;  // the clock was set back
  if (slot > slot_) {
    const int64_t first = std::max(slot_ < 0 ? slot : slot_ + 1, slot - static_cast<int64_t>(kSlots) + 1);
    for (int64_t passed = first; passed <= slot; ++passed) text_[static_cast<size_t>(passed) % kSlots] = kLetters[0];
    slot_ = slot;
    samples_ = {};
  }
  ++samples_.at(std::min(kLetters.find(letter), kLetters.size() - 1));
  const auto most = std::max_element(samples_.begin(), samples_.end()) - samples_.begin();
  const bool trouble = samples_.back() > 0;
  text_[static_cast<size_t>(slot) % kSlots] = trouble ? 'x' : kLetters[static_cast<size_t>(most)];
}

// Counts the trials since the snapshot before. A server that was started anew counts from 0.
void FarmView::Count(const rpc::DeviceStatus& status, Device& device) {
  for (const auto& [word, count] : status.trials) {
    const auto before = device.trials.find(word);
    const bool goes_on = before != device.trials.end() && before->second <= count;
    trials_[{status.key, word}] += std::max<int64_t>(0, count - (goes_on ? before->second : 0));
  }
  device.trials = status.trials;
}

Json FarmView::DeviceState(const rpc::DeviceStatus& status, Device& device) const {
  Json::Object state{{"key", status.key},
                     {"state", status.state},
                     {"strip", device.strip.text()},
                     {"cores", static_cast<int64_t>(status.cores.size())}};
  Put(state, "model", status.model);
  Put(state, "why", status.why);
  if (status.last_error != status.why) Put(state, "error", status.last_error);
  if (!status.trials.empty()) state.emplace("trials", ToJson(status.trials));
  if (!status.lease.empty()) {
    const int64_t since = latest_.at - status.since_ms;
    device.since = device.lease == status.lease ? Steady(since, device.since) : since;
    state.emplace("lease", status.lease.substr(0, 8));
    state.emplace("since", device.since);
    Put(state, "holder", status.client_name);
    Put(state, "job", status.job);
  }
  device.lease = status.lease;
  if (status.state == rpc::device_state::kUnreachable) {
    device.seen = Steady(latest_.at - status.last_seen_ms, device.seen);
    state.emplace("seen", device.seen);
  }
  return state;
}

Json FarmView::QueueState() {
  Json::Object rows;
  std::map<std::string, int64_t> since;
  std::map<std::string, int64_t> places;
  for (const rpc::QueueStatus& waiting : latest_.status.queue) {
    const std::string place = std::to_string(++places[waiting.key]);
    const std::string row = waiting.key + "/" + std::string(7 - std::min<size_t>(7, place.size()), '0') + place;
    const auto before = queue_since_.find(row);
    int64_t begin = latest_.at - waiting.waiting_ms;
    if (before != queue_since_.end()) begin = Steady(begin, before->second);
    since[row] = begin;
    Json::Object state{{"key", waiting.key}, {"place", places[waiting.key]}, {"since", begin}};
    Put(state, "holder", waiting.client_name);
    Put(state, "job", waiting.job);
    const auto why = latest_.waits.find(waiting.key);
    if (why != latest_.waits.end()) Put(state, "why", why->second);
    rows.emplace(row, std::move(state));
  }
  queue_since_ = std::move(since);
  return rows;
}

Json FarmView::JobStates() {
  Json::Object states;
  std::map<std::string, Job> jobs;
  for (const FarmJob& its : latest_.jobs) {
    const rpc::JobReport& report = its.report;
    Job& job = jobs[report.run] = std::move(jobs_[report.run]);
    job.began = Steady(latest_.at - its.began_ms, job.began);
    job.heard = Steady(latest_.at - its.heard_ms, job.heard);
    job.curve.Add(report.trials, report.best_ms);
    const bool runs = report.state == rpc::job_state::kRunning;
    Json::Object state{{"state", report.state},
                       {"trials", report.trials},
                       {"planned", report.planned_trials},
                       {"records", report.records},
                       {"began", job.began},
                       {"curve", job.curve.State()},
                       {"outcomes", ToJson(report.outcomes)}};
    // A tuner reports every three seconds, so a silent one has missed two reports. Tuners before wire 2.10 repeat a
    // report every ten seconds only. They look silent for a moment while nothing new happens.
    constexpr int64_t kSilentMs = 8000;
    if (!runs) state.emplace("ended", job.heard);
    if (runs && its.heard_ms > kSilentMs) state.emplace("silent", job.heard);
    for (const auto& [name, text] : {std::pair("network", &report.network),
                                     {"key", &report.key},
                                     {"task", &report.task},
                                     {"holder", &report.client_name},
                                     {"phase", &report.phase},
                                     {"result", &report.result},
                                     {"page", &report.page},
                                     {"report", &report.report},
                                     {"database", &report.database}})
      Put(state, name, *text);
    if (its.here) state.emplace("here", true);
    if (report.seconds > 0) state.emplace("seconds", report.seconds);
    if (report.best_ms > 0) state.emplace("best_ms", report.best_ms);
    if (report.trials_per_second > 0) state.emplace("rate", report.trials_per_second);
    states.emplace(report.run, std::move(state));
  }
  jobs_ = std::move(jobs);
  return states;
}

Json FarmView::Take(const FarmSnapshot& snapshot) {
  latest_ = snapshot;
  latest_.status = StatusOfKey(snapshot.status, "");
  const rpc::StatusReply& status = latest_.status;
  started_ = Steady(latest_.at - status.uptime_ms, started_);
  Json::Object devices, absent, holds;
  std::map<std::string, int> same;  // servers whose ids begin alike
  for (const rpc::DeviceStatus& its : status.devices) {
    const int number = ++same[its.server];
    const std::string id = its.server + (number > 1 ? "#" + std::to_string(number) : "");
    Device& device = devices_[id];
    device.key = its.key;
    device.last = latest_.at;
    device.strip.Add(LetterOf(its.state), latest_.at);
    Count(its, device);
    devices.emplace(id, DeviceState(its, device));
  }
  std::erase_if(devices_, [&](const auto& known) { return latest_.at - known.second.last > kHourMs; });
  for (const auto& [key, age] : status.absent_keys) absent.emplace(key, (latest_.at - age) / 1000 * 1000);
  for (const rpc::DeviceHold& hold : status.holds) {
    Json::Object state{{"how", hold.how}, {"who", rpc::AdminText(hold.who)}};
    Put(state, "note", hold.note);
    if (hold.for_ms > 0) state.emplace("until", (latest_.at + hold.for_ms) / 1000 * 1000);
    holds.emplace(hold.pattern, std::move(state));
  }
  Json::Array faults;
  for (const auto& [age, text] : latest_.faults) {
    const int64_t when = (latest_.at - age + 500) / 1000 * 1000;
    faults.emplace_back(Json::Object{{"at", when}, {"text", text}});
  }
  return Json::Object{{"kind", "farm"},
                      {"program", version_},
                      {"now", latest_.at},
                      {"started", started_},
                      {"epoch", status.epoch},
                      {"recovering", status.recovering},
                      {"grants", status.grants},
                      {"expired", status.expired},
                      {"malformed", status.malformed},
                      {"omitted", status.omitted},
                      {"devices", std::move(devices)},
                      {"absent", std::move(absent)},
                      {"holds", std::move(holds)},
                      {"queue", QueueState()},
                      {"jobs", JobStates()},
                      {"faults", std::move(faults)}};
}

std::string FarmView::Metrics() const {
  const rpc::StatusReply& status = latest_.status;
  http::MetricsText out;
  out.Begin("autotune_build_info", "gauge", "The version of this program.");
  out.Add({{"version", version_}}, 1);
  out.Begin("autotune_start_time_seconds", "gauge", "When the tracker started, in seconds since 1970.");
  out.Add({}, static_cast<double>(started_) / 1e3);
  std::map<std::pair<std::string, std::string>, int64_t> devices;
  std::map<std::string, int64_t> queue;
  for (const rpc::DeviceStatus& device : status.devices) ++devices[{device.key, device.state}];
  for (const rpc::QueueStatus& waiting : status.queue) ++queue[waiting.key];
  for (const auto& [key_state, count] : devices) queue[key_state.first] += 0;  // nobody waits
  out.Begin("autotune_devices", "gauge", "Devices by key and state.");
  for (const auto& [key_state, count] : devices)
    out.Add({{"key", key_state.first}, {"state", key_state.second}}, static_cast<double>(count));
  out.Begin("autotune_queue_requests", "gauge", "Requests that wait for a device, by key.");
  for (const auto& [key, count] : queue) out.Add({{"key", key}}, static_cast<double>(count));
  out.Begin("autotune_trials_total", "counter", "Candidates that devices have run, by status and key of the device.");
  for (const auto& [key_status, count] : trials_)
    out.Add({{"status", key_status.second}, {"device_key", key_status.first}}, static_cast<double>(count));
  out.Begin("autotune_lease_wait_seconds", "histogram", "How long requests waited for the devices that they got.");
  int64_t sum = 0;
  for (size_t i = 0; i < latest_.lease_waits.counts.size(); ++i) {
    sum += latest_.lease_waits.counts.at(i);
    const bool last = i == LeaseWaits::kBoundsMs.size();
    const std::string bound = last ? "+Inf" : Json(static_cast<double>(LeaseWaits::kBoundsMs.at(i)) / 1e3).Dump();
    out.Add({{"le", bound}}, static_cast<double>(sum), "_bucket");
  }
  out.Add({}, static_cast<double>(latest_.lease_waits.sum_ms) / 1e3, "_sum");
  out.Add({}, static_cast<double>(sum), "_count");
  const auto count = [&](const char* name, const char* help, int64_t value) {
    out.Begin(name, "counter", help);
    out.Add({}, static_cast<double>(value));
  };
  count("autotune_leases_granted_total", "Leases that the tracker has granted.", status.grants);
  count("autotune_leases_expired_total", "Leases that ended since their holders did not renew them.", status.expired);
  count("autotune_malformed_messages_total", "Messages that could not be read.", status.malformed);
  return out.text();
}

}  // namespace autotune::tools
