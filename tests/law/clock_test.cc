// Deadlines, leases and measurements use monotonic clocks. Only the files in kReaders read the wall clock, for dates
// that people read (in records, packages and logs). Users and time servers may set the wall clock, and such a jump must
// neither end nor prolong a wait or a lease.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "tests/law/tree.h"

namespace autotune::law {
namespace {

const std::map<std::string, std::string> kReaders = {
    {"support/clock.h", "defines WallMillis"},
    {"records/record.cc", "the time in a record's id"},
    {"compiler/choose.cc", "NetworkChoice::created_at"},
    {"tuner/run_log.cc", "Record::created_at, RunState::updated_at"},
    {"service/claimed_run.cc", "RunState::updated_at"},
    {"tools/autotune/report/collect.cc", "Report::created_at"},
    {"tools/live/tune_page.cc", "the times of events on the page"},
    {"tools/autotune/waits.cc", "prints since when a command waits"},
    {"rpc/event_file.cc", "the time of each event"},
    {"rpc/content_store.cc", "when files were last used, as their dates"},
    {"rpc/server.cc", "prints since when the server waits for the tracker"},
    {"rpc/server_batch.cc", "TrialResult::started"},
    {"tools/event_log.cc", "the time of each line"},
    {"tools/farm_status.cc", "prints until when devices are held"},
    {"tools/tracker_commands.cc", "prints until when devices are held, and the times of changes"},
    {"tracker/members.cc", "when a member was invited"},
    {"tracker/tracker.cc",
     "age of the keys in the tracker's file, for status; the ends of drains and locks; times of events"},
    {"package/package_io.cc", "the date in a package"},
    {"package/prepared_cache.cc", "the age of files, whose dates are the file system's"},
    {"tracker/local_farm.cc", "age of a stale folder, whose date is the file system's"},
};

bool ReadsTheWallClock(const std::string& text) {
  static const std::regex kPattern(
      R"(system_clock|CLOCK_REALTIME|WallMillis|gettimeofday|(^|[^\w])(std::)?time\((nullptr|NULL|0|&)|timespec_get)");
  return std::regex_search(text, kPattern);
}

TEST(Clocks, OnlyListedFilesReadTheWallClock) {
  std::set<std::string> found;
  for (const std::string& path : ProjectFiles()) {
    if (!(path.ends_with(".cc") || path.ends_with(".h")) || path.starts_with("tests/") || path.starts_with("bench/"))
      continue;
    if (!ReadsTheWallClock(ReadProjectFile(path))) continue;
    found.insert(path);
    EXPECT_TRUE(kReaders.count(path)) << path << " reads the wall clock: use BootMillis or steady_clock instead";
  }
  for (const auto& [path, what] : kReaders)
    EXPECT_TRUE(found.count(path)) << path << " does not read the wall clock (" << what << "): remove it from kReaders";
}

TEST(Clocks, TheyAreToldApart) {
  for (const char* text : {"std::chrono::system_clock::now()", "x = WallMillis();", "std::time(nullptr)", "time(NULL)",
                           "clock_gettime(CLOCK_REALTIME, &t)"})
    EXPECT_TRUE(ReadsTheWallClock(text)) << text;
  for (const char* text : {"steady_clock::now()", "BootMillis()", "run_time(0)", "CLOCK_BOOTTIME", "time.options"})
    EXPECT_FALSE(ReadsTheWallClock(text)) << text;
}

}  // namespace
}  // namespace autotune::law
