// Makes the report about a tuning run for a tracker (rpc/job_report.h) from the run's events. Not thread-safe.
#pragma once
#include <string>
#include <utility>

#include "rpc/job_report.h"
#include "service/events.h"

namespace autotune::tools {

class RunReport {
 public:
  RunReport(std::string run, std::string client_name);
  void Take(const event::Any& event);
  const rpc::JobReport& report() const { return report_; }

 private:
  void Copy(const event::Round& round);

  rpc::JobReport report_;
};

}  // namespace autotune::tools
