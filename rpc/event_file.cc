#include "rpc/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/clock.h"
#include "support/file.h"
#include "support/log.h"

namespace autotune::rpc {

EventFile::EventFile(std::string party, std::string id) : party_(std::move(party)), id_(std::move(id)) {
  const char* folder = std::getenv("AUTOTUNE_FARM_EVENTS");
  if (!folder || !*folder) return;
  // A process may have several trackers and clients. The time tells it from an earlier process of this number.
  static std::atomic<int> files = 0;
  const std::string path = std::string(folder) + "/" + party_ + "-" + std::to_string(getpid()) + "-" +
                           std::to_string(WallMillis()) + "-" + std::to_string(++files) + ".jsonl";
  file_ = UniqueFd(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (file_.get() < 0) {
    Log(LogLevel::kWarning, "no events are written: cannot create ", path, ": ", strerror(errno));
  } else {
    WriteLine("party began", Json::Object{});
  }
}

EventFile::~EventFile() { WriteLine("party ended", Json::Object{}); }

void EventFile::Write(const FarmEvent& event, std::optional<int64_t> at) {
  if (file_.get() >= 0) WriteLine("device", ToJson(event), at);
}
void EventFile::Write(const CandidateEvent& event) {
  if (file_.get() >= 0) WriteLine("candidate", ToJson(event));
}

void EventFile::WriteLine(std::string_view what, Json fields, std::optional<int64_t> at) {
  if (file_.get() < 0) return;
  fields["at"] = Json(at ? *at : WallMillis());
  fields["party"] = Json(party_);
  fields["id"] = Json(id_);
  fields["what"] = Json(what);
  if (Status written = WriteAll(file_.get(), fields.Dump() + "\n", "the farm's events"); !written) {
    Log(LogLevel::kWarning, written.error().Text(), "; no further ones are written");
    file_.Reset();
  }
}

}  // namespace autotune::rpc
