// FarmPage: the live page of a tracker. Once a second it publishes a snapshot of the tracker to a server of HTTP, whose
// thread makes page, events and metrics of it, and never looks at the tracker. What operators ask for goes to the
// tracker's loop. Belongs to the thread of the loop.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "support/loop.h"
#include "support/result.h"
#include "tracker/tracker.h"

namespace autotune::tools {

struct FarmPageOptions {
  std::string address;       // see http::ServerOptions
  std::string state_folder;  // of the tracker, with the list of those who may look
  std::string version;       // of this program
  std::function<void(const std::string& line)> log = {};
};

class FarmPage {
 public:
  // The tracker and the loop must outlive the page.
  static Result<std::unique_ptr<FarmPage>> Start(Loop& loop, Tracker& tracker, FarmPageOptions options);
  ~FarmPage();
  std::string Url() const;
  bool is_local() const;   // only this host can connect
  int64_t Memory() const;  // about how much it takes, in bytes

 private:
  struct Impl;
  explicit FarmPage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::tools
