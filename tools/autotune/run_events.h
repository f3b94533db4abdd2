// RunEvents gives the events of a tuning run to its printer and, if there are some, to its live page and the tracker of
// its farm. Thread-safe.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "rpc/address.h"
#include "tools/autotune/printer.h"
#include "tools/live/run_report.h"
#include "tools/live/tune_page.h"
#include "tracker/job_reporter.h"

namespace autotune::tools {

class RunEvents : public EventPrinter {
 public:
  // `http`: the address of the live page, whose URL is printed; empty: none. Error: see TunePage::Start.
  static Result<std::unique_ptr<RunEvents>> Start(std::unique_ptr<EventPrinter> printer, const std::string& http);
  // From the event Begin on, the tracker gets reports about the run. Error: the address is wrong.
  Status TellTracker(const rpc::Address& tracker);
  void Print(const event::Any& event) override;

 private:
  explicit RunEvents(std::unique_ptr<EventPrinter> printer) : printer_(std::move(printer)) {}

  std::unique_ptr<EventPrinter> printer_;
  std::unique_ptr<TunePage> page_;
  std::mutex mutex_;
  std::optional<RunReport> report_;  // protected by the mutex
  std::unique_ptr<JobReporter> reporter_;
};

}  // namespace autotune::tools
