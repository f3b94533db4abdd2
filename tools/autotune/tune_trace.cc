#include "tools/autotune/tune_trace.h"

#include <utility>

#include "support/clock.h"
#include "support/task_id.h"

namespace autotune::tools {
namespace {

class TracingPrinter : public EventPrinter {
 public:
  TracingPrinter(std::unique_ptr<EventPrinter> printer, TuneTrace& trace)
      : printer_(std::move(printer)), trace_(trace) {}
  void Print(const event::Any& event) override {
    trace_.Add(event);
    printer_->Print(event);
  }

 private:
  std::unique_ptr<EventPrinter> printer_;
  TuneTrace& trace_;
};

// Returns the phase that begins with an event of this kind; "" if none does.
std::string PhaseAfter(const event::Any& event) {
  if (std::holds_alternative<event::Begin>(event)) return "search";
  if (std::holds_alternative<event::Confirmed>(event)) return "confirm";
  if (std::holds_alternative<event::Choosing>(event)) return "choose";
  if (std::holds_alternative<event::End>(event)) return "write";
  return "";
}

}  // namespace

TuneTrace::TuneTrace() : start_(SteadySeconds()) {}

double TuneTrace::Now() const { return SteadySeconds() - start_; }

void TuneTrace::Add(const Span& span) {
  std::lock_guard lock(mutex_);
  spans_.push_back(span);
  spans_.back().begin -= start_;
  spans_.back().end -= start_;
}

void TuneTrace::EndPhase(const std::string& name) {
  if (name.empty() || name == phase_) return;
  phases_.push_back({.lane = "run", .name = std::exchange(phase_, name), .begin = phase_begin_, .end = Now()});
  phase_begin_ = phases_.back().end;
}

void TuneTrace::Add(const event::Any& event) {
  std::lock_guard lock(mutex_);
  EndPhase(PhaseAfter(event));
  const auto* wait = std::get_if<event::Waiting>(&event);
  if (!wait) return;
  if (!wait->reason.empty()) {
    open_waits_.try_emplace(wait->what, Span{.name = wait->reason, .begin = Now()});
  } else if (auto open = open_waits_.extract(wait->what)) {
    open.mapped().end = Now();
    waits_[wait->what].push_back(open.mapped());
  }
}

Status TuneTrace::Write(const std::string& path) const {
  std::lock_guard lock(mutex_);
  TraceFile file;
  const int64_t run = file.AddProcess("autotune tune");
  const int64_t phases = file.AddLane(run, "run");
  for (const Span& phase : phases_) file.AddSpan(run, phases, phase.name, phase.begin, phase.end - phase.begin);
  file.AddSpan(run, phases, phase_, phase_begin_, Now() - phase_begin_);
  std::map<std::string, std::pair<int64_t, int64_t>> lanes;  // process and lane
  for (const char* name : {"search", "build"}) lanes[name] = {run, file.AddLane(run, name)};
  auto waits = waits_;
  for (const auto& [what, wait] : open_waits_) {
    waits[what].push_back(wait);
    waits[what].back().end = Now();
  }
  for (const auto& [what, list] : waits) {
    const int64_t lane = file.AddLane(run, "waiting for " + what);
    for (const Span& wait : list) file.AddSpan(run, lane, wait.name, wait.begin, wait.end - wait.begin);
  }
  int64_t devices = 0;
  for (const Span& span : spans_) {
    if (!lanes.contains(span.lane)) {
      if (devices == 0) devices = file.AddProcess("devices");
      lanes[span.lane] = {devices, file.AddLane(devices, span.lane)};
    }
    Json args;
    if (!span.task.empty()) args["task"] = ShortTaskId(span.task);
    if (!span.status.empty()) args["status"] = span.status;
    const auto& [process, lane] = lanes[span.lane];
    file.AddSpan(process, lane, span.name, span.begin, span.end - span.begin, std::move(args));
  }
  return file.Write(path);
}

std::unique_ptr<EventPrinter> MakeTracingPrinter(std::unique_ptr<EventPrinter> printer, TuneTrace& trace) {
  return std::make_unique<TracingPrinter>(std::move(printer), trace);
}

}  // namespace autotune::tools
