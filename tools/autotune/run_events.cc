#include "tools/autotune/run_events.h"

#include "rpc/client.h"
#include "rpc/message.h"
#include "tools/autotune/console.h"

namespace autotune::tools {

Result<std::unique_ptr<RunEvents>> RunEvents::Start(std::unique_ptr<EventPrinter> printer, const std::string& http) {
  std::unique_ptr<RunEvents> events(new RunEvents(std::move(printer)));
  if (http.empty()) return events;
  events->page_ = TRY_NOTE(TunePage::Start(http, AUTOTUNE_VERSION), "--http");
  const std::string url = "live page of this run: " + events->page_->Url();
  Console::Get().json() ? events->printer_->Print(event::Note{url}) : Console::Get().Status(url);
  return events;
}

Status RunEvents::TellTracker(const rpc::Address& tracker) {
  report_.emplace(rpc::RandomId(), rpc::ClientName());
  reporter_ = TRY(JobReporter::Start(tracker));
  return {};
}

void RunEvents::Print(const event::Any& event) {
  printer_->Print(event);
  if (page_) page_->Take(event);
  if (!reporter_) return;
  std::lock_guard lock(mutex_);
  report_->Take(event);
  if (!report_->report().network.empty()) reporter_->Report(report_->report());
}

}  // namespace autotune::tools
