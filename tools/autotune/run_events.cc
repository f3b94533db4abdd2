#include "tools/autotune/run_events.h"

#include <filesystem>

#include "rpc/client.h"
#include "rpc/message.h"
#include "support/shell.h"
#include "tools/autotune/console.h"
#include "tools/autotune/report/options.h"
#include "tools/autotune/report/page.h"

namespace autotune::tools {

Result<std::unique_ptr<RunEvents>> RunEvents::Start(std::unique_ptr<EventPrinter> printer, Options options) {
  if (!options.database.empty()) {
    std::error_code ignored;
    options.database = std::filesystem::absolute(options.database, ignored).string();
  }
  std::unique_ptr<RunEvents> events(new RunEvents(std::move(printer), std::move(options)));
  const Options& given = events->options_;
  if (given.http.empty()) return events;
  TunePageOptions page{.address = given.http, .version = AUTOTUNE_VERSION};
  if (!given.database.empty()) {
    page.report = [raw = events.get()] { return raw->ReportPage(); };
    page.report_command = "autotune report --db " + ShellWord(given.database) + " -o report.html";
  }
  events->page_ = TRY_NOTE(TunePage::Start(std::move(page)), "--http");
  const std::string url = "live page of this run: " + events->page_->Url();
  Console::Get().json() ? events->printer_->Print(event::Note{url}) : Console::Get().Status(url);
  return events;
}

Result<std::string> RunEvents::ReportPage() {
  std::string target;
  {
    std::lock_guard lock(mutex_);
    target = target_;
  }
  if (target.empty()) return Err("the run has not begun");
  // A measurement of the machine's peaks would disturb those of the run.
  report::Report report = TRY(report::DatabaseReport(options_.database, target, /*no_run=*/true));
  report.command = "autotune report --db " + ShellWord(options_.database) + " --target " + ShellWord(target);
  report::LimitSchedules(report);
  return report::PageOf(ToJson(report));
}

Status RunEvents::TellTracker(const rpc::Address& tracker) {
  report_.emplace(
      rpc::RandomId(), rpc::ClientName(),
      RunPlaces{.page = page_ ? page_->Url() : "", .report = options_.report_url, .database = options_.database});
  reporter_ = TRY(JobReporter::Start(tracker));
  return {};
}

void RunEvents::Print(const event::Any& event) {
  printer_->Print(event);
  if (page_) page_->Take(event);
  std::lock_guard lock(mutex_);
  if (const auto* begin = std::get_if<event::Begin>(&event)) target_ = begin->target;
  if (!reporter_) return;
  report_->Take(event);
  if (!report_->report().network.empty()) reporter_->Report(report_->report());
}

}  // namespace autotune::tools
