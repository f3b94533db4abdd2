// Makes the report about a tuning run for a tracker (rpc/job_report.h) from the run's events. Not thread-safe.
#pragma once
#include <string>
#include <utility>

#include "rpc/job_report.h"
#include "service/events.h"

namespace autotune::tools {

// Where readers find more about a run. Empty: nowhere.
struct RunPlaces {
  std::string page = {};      // URL of its own page, which ends with it
  std::string report = {};    // URL at which its report will be published
  std::string database = {};  // file with its records
};

class RunReport {
 public:
  RunReport(std::string run, std::string client_name, RunPlaces places = {});
  void Take(const event::Any& event);
  const rpc::JobReport& report() const { return report_; }

 private:
  void Copy(const event::Round& round);
  void End(const char* state);

  rpc::JobReport report_;
  const std::string published_;  // URL of the report, which is told once the run has ended
};

}  // namespace autotune::tools
