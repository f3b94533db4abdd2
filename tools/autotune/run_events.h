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
  struct Options {
    std::string http;        // the address of the live page, whose URL is printed; empty: none
    std::string report_url;  // where the report will be published, for the tracker; empty: unknown
    std::string database;    // with the records of the run; empty: in memory
  };
  // Error: see TunePage::Start.
  static Result<std::unique_ptr<RunEvents>> Start(std::unique_ptr<EventPrinter> printer, Options options);
  // From the event Begin on, the tracker gets reports about the run. Error: the address is wrong.
  Status TellTracker(const rpc::Address& tracker);
  void Print(const event::Any& event) override;

 private:
  RunEvents(std::unique_ptr<EventPrinter> printer, Options options)
      : printer_(std::move(printer)), options_(std::move(options)) {}
  Result<std::string> ReportPage();

  std::unique_ptr<EventPrinter> printer_;
  const Options options_;
  std::mutex mutex_;
  std::string target_;               // in full; empty before the event Begin; protected by the mutex
  std::optional<RunReport> report_;  // protected by the mutex
  std::unique_ptr<JobReporter> reporter_;
  std::unique_ptr<TunePage> page_;  // ends first, since it asks for the report
};

}  // namespace autotune::tools
