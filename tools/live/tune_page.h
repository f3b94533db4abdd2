// TunePage: the live page of a tuning run, on this host only. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "service/events.h"
#include "support/result.h"

namespace autotune::tools {

struct TunePageOptions {
  std::string address;  // see http::ServerOptions
  std::string version;  // of this program
  // Makes the report of the run so far, as a page for /report. Called on a thread of its own, one at a time. Null:
  // there is none.
  std::function<Result<std::string>()> report = {};
  std::string report_command = {};  // the command that makes it once the run is over
};

class TunePage {
 public:
  // Error: the address is wrong, or other hosts could connect.
  static Result<std::unique_ptr<TunePage>> Start(TunePageOptions options);
  ~TunePage();
  std::string Url() const;
  void Take(const event::Any& event);

 private:
  struct Impl;
  explicit TunePage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::tools
