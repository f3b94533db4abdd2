#include "tools/event_log.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "rpc/message.h"
#include "support/clock.h"
#include "support/clock_text.h"

namespace autotune::tools {

void EventLog::Write(const std::string& line) {
  std::string text = ClockText(WallMillis()) + " " + program_ + ": ";
  if (dropped_ > 0) text += "(" + std::to_string(dropped_) + " lines before this one are lost) ";
  text += line + "\n";
  // A pipe or terminal that is ready takes PIPE_BUF bytes at once. A longer line might have to wait.
  pollfd ready{fd_, POLLOUT, 0};
  const bool takes = text.size() <= PIPE_BUF && poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT);
  if (takes && write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    dropped_ = 0;
  } else {
    ++dropped_;
  }
}

std::string FarmVersion(const std::string& program) {
  return program + " " + AUTOTUNE_VERSION + "\nwire " + std::to_string(rpc::kWireMajor) + "." +
         std::to_string(rpc::kWireMinor);
}

}  // namespace autotune::tools
