// The events of a process of the farm, in a file of its own, from which scripts/ledger.sh keeps books.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/farm_event.h"
#include "support/json.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

// If AUTOTUNE_FARM_EVENTS names a folder, writes a line of JSON for each event to a new file there; else does nothing.
// An event is on its way to the disk when Write returns, so a process that is killed loses none of those. Not
// thread-safe.
class EventFile {
 public:
  // `party`: "tracker", "server" or "client", with its id. The first line says that it begins.
  EventFile(std::string party, std::string id);
  ~EventFile();  // the last line says that it ended by itself
  EventFile(const EventFile&) = delete;
  // `at`: when it happened, in ms since 1970; nothing: now.
  void Write(const FarmEvent& event, std::optional<int64_t> at = std::nullopt);
  void Write(const CandidateEvent& event);

 private:
  void WriteLine(std::string_view what, Json fields, std::optional<int64_t> at = std::nullopt);

  std::string party_, id_;
  UniqueFd file_;  // closed: nothing is written
};

}  // namespace autotune::rpc
