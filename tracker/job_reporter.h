// JobReporter tells a tracker how a tuning run goes, in a thread of its own. It sends the latest report once a second
// if it is new, and every three seconds otherwise, since the tracker may have been started anew. A tracker before 2.8
// gets nothing. Thread-safe.
#pragma once
#include <memory>

#include "rpc/address.h"
#include "rpc/job_report.h"
#include "support/result.h"

namespace autotune {

class JobReporter {
 public:
  // Connects to the tracker, and goes on trying. Error: the address is wrong.
  static Result<std::unique_ptr<JobReporter>> Start(const rpc::Address& tracker);
  ~JobReporter();  // sends what is new, if the tracker can be reached
  void Report(rpc::JobReport report);

  struct Impl;

 private:
  explicit JobReporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
