#include "tests/simulator/ledger/farm_log.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "support/file.h"
#include "support/json.h"

namespace autotune {
namespace {

using What = Entry::What;

std::string TextOf(const Json& json) {
  const auto* text = json.As<std::string>();
  return text ? *text : "";
}
int64_t NumberOf(const Json& json) {
  const auto* number = json.As<int64_t>();
  return number ? *number : 0;
}

// One process.
struct Process {
  std::string party, id;
  std::vector<Json> lines;
  bool ended = false;  // by itself

  int64_t Began() const { return NumberOf(lines.front()["at"]); }
};

Result<Process> Parse(const std::string& text) {
  Process process;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Json json = TRY_NOTE(Json::Parse(line), "line " + std::to_string(process.lines.size() + 1));
    process.party = TextOf(json["party"]);
    process.id = TextOf(json["id"]);
    process.ended = TextOf(json["what"]) == "party ended";
    process.lines.push_back(std::move(json));
  }
  if (process.lines.empty()) return Err("a file of events is empty");
  return process;
}

// The words of events, and what they mean in the books of each party.
const std::map<std::pair<std::string_view, std::string_view>, What> kMeanings = {
    {{"tracker", "leased"}, What::kGranted},
    {{"tracker", "returned"}, What::kReturned},
    {{"tracker", "lost"}, What::kLost},
    {{"server", "leased"}, What::kServerLeased},
    {{"server", "returned"}, What::kServerReturned},
    {{"server", "lost"}, What::kServerLost},
    {{"server", "recovered"}, What::kProbed},
    {{"server", "began"}, What::kStarted},
    {{"server", "ended"}, What::kEnded},
    {{"client", "lost"}, What::kDropped},
    {{"client", "issued"}, What::kIssued},
    {{"client", "answered"}, What::kAnswered}};

class Reader {
 public:
  void Add(const Process& process) {
    std::set<std::string> open;  // candidates of a client without an answer
    at_ = 0;
    for (const Json& line : process.lines) {
      at_ = std::max(at_, NumberOf(line["at"]));  // a clock may go back
      const std::string what = TextOf(line["what"]);
      if (what == "party began") {
        Begin(process);
      } else if (what == "party ended") {
        if (process.party == "server") Put({.what = What::kClosed, .server = process.id});
      } else if (auto meaning = kMeanings.find({process.party, TextOf(line["kind"])}); meaning != kMeanings.end()) {
        const Entry entry = EntryOf(meaning->second, line);
        if (entry.what == What::kIssued) open.insert(entry.candidate);
        if (entry.what == What::kAnswered) open.erase(entry.candidate);
        Put(entry);
      }
    }
    if (process.ended) return;
    if (process.party == "server") Put({.what = What::kRestarted, .server = process.id});
    for (const std::string& candidate : open)
      Put({.what = What::kAbandoned, .client = process.id, .candidate = candidate});
  }
  Ledger Keep() {
    // At the same millisecond: a client gives a device up before others work for it, and grants come before their use.
    const auto rank = [](const Entry& e) {
      return e.what == What::kDropped || e.what == What::kIssued ? 0
             : e.what >= What::kServerLeased                     ? 2
             : e.what == What::kAnswered                         ? 3
                                                                 : 1;
    };
    std::ranges::stable_sort(
        entries_, [&](const Entry& a, const Entry& b) { return std::pair(a.at, rank(a)) < std::pair(b.at, rank(b)); });
    constexpr int64_t kTellMs = 200;  // time in which messages arrive and processes get a processor, on a busy host
    Ledger ledger({.faults_unknown = true, .tell_ms = kTellMs});
    for (const Entry& entry : entries_) ledger.Add(entry);
    ledger.Close(entries_.empty() ? 0 : entries_.back().at);
    return ledger;
  }

 private:
  void Begin(const Process& process) {
    if (process.party == "server") Put({.what = What::kRestarted, .server = process.id});
    if (process.party == "tracker") Put({.what = What::kFault, .status = "restart"});
  }
  static Entry EntryOf(What what, const Json& line) {
    Entry entry{.what = what,
                .server = TextOf(line["server"]),
                .client = TextOf(line["client"]),
                .lease = TextOf(line["lease"]),
                .request = TextOf(line["request"]),
                .key = TextOf(line["key"]),
                .status = TextOf(line["status"]),
                .why = TextOf(line["why"]),
                .identity = TextOf(line["server"]),
                .epoch = NumberOf(line["token"]["epoch"]),
                .counter = NumberOf(line["token"]["counter"])};
    if (const std::string candidate = TextOf(line["candidate"]); !candidate.empty())
      entry.candidate = entry.client + "/" + candidate;
    return entry;
  }
  void Put(Entry entry) {
    entry.at = entry.until = at_;
    entries_.push_back(std::move(entry));
  }

  int64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace

Result<Ledger> LedgerOf(const std::vector<std::string>& files) {
  std::vector<Process> processes;
  for (const std::string& file : files) processes.push_back(TRY(Parse(file)));
  std::ranges::sort(processes, {}, &Process::Began);
  Reader reader;
  for (const Process& process : processes) reader.Add(process);
  return reader.Keep();
}

Result<std::vector<std::string>> ReadFarmLogs(const std::string& folder) {
  std::vector<std::string> paths, files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".jsonl") paths.push_back(entry.path());
  }
  if (error) return Err("cannot read the folder ", folder, ": ", error.message());
  std::ranges::sort(paths);
  for (const std::string& path : paths) files.push_back(TRY(ReadFile(path)));
  return files;
}

}  // namespace autotune
