// Measures a large record database: bench_records [RECORDS [FILE]]. Fills a database with RECORDS records (default
// 1,000,000) of 500 tasks on 2 targets. Prints the times of appending to it, opening it and looking up records, with
// their limits. An existing FILE is filled up to RECORDS and kept, so that it can be prepared beforehand.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "records/open.h"
#include "support/clock.h"

namespace autotune {
namespace {

constexpr int kTasks = 500;
const std::string kTargets[] = {"llvm -mcpu=znver3 -num-cores=2", "llvm -mcpu=znver3 -num-cores=4"};

std::string TaskHash(int64_t task) {
  char text[33];
  snprintf(text, sizeof text, "%032llx", static_cast<unsigned long long>(task * 0x9e3779b97f4a7c15ULL));
  return text;
}

Record SyntheticRecord(int64_t i, Rng& rng) {
  Record r;
  r.id = NewRecordId(1700000000000 + i, rng);
  r.task = TaskHash(rng.Below(kTasks));
  r.alternative = "direct";
  r.func = "func conv2d_" + r.task + std::string(1500, '.');
  r.trace = "split(oc, [?,16]) -> oc_0, oc_1 # " + std::to_string(i) + std::string(400, '.');
  r.target = kTargets[rng.Below(2)];
  r.device = "local";
  r.cost = 1e-4 * (1 + rng.Uniform() * 20);
  r.times = {r.cost, r.cost * 1.01, r.cost * 1.02};
  bool ok = rng.Uniform() < 0.8;
  r.status = ok ? TrialStatus::kOk : TrialStatus::kRejected;
  r.verified = ok;
  r.run = "run" + std::to_string(i / 10000);
  r.created_at = 1700000000000 + i;
  r.facts["spills"] = 0;
  return r;
}

int Fail(const Error& error) {
  fprintf(stderr, "%s\n", error.Text().c_str());
  return 1;
}

// Appends `share` records and returns the seconds spent in Append.
Result<double> Append(RecordStore& store, int64_t first, int64_t share, int64_t batch_size, Rng& rng) {
  double seconds = 0;
  for (int64_t done = 0; done < share;) {
    std::vector<Record> batch;
    while (static_cast<int64_t>(batch.size()) < std::min(batch_size, share - done))
      batch.push_back(SyntheticRecord(first + done + static_cast<int64_t>(batch.size()), rng));
    double start = SteadySeconds();
    TRY(store.Append(batch));
    seconds += SteadySeconds() - start;
    done += static_cast<int64_t>(batch.size());
  }
  return seconds;
}

int Main(int64_t records, std::string path) {
  bool temporary = path.empty();
  if (temporary) {
    path = std::filesystem::temp_directory_path() / "autotune_records_bench.db";
    for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(path + suffix);
  }
  Rng rng(static_cast<uint64_t>(SteadySeconds() * 1e9));  // a new seed, so that the ids differ from an earlier run's
  {
    auto store = OpenStore(path);
    if (!store.ok()) return Fail(store.error());
    auto there = (*store)->Count({});
    if (!there.ok()) return Fail(there.error());
    if (*there < records) {
      auto filled = Append(**store, *there, records - *there, 2000, rng);
      if (!filled.ok()) return Fail(filled.error());
      printf("fill     %8ld records to %ld in %.1f s\n", records - *there, records, *filled);
    }
    for (auto [batch_size, share] : {std::pair<int64_t, int64_t>{64, 20000}, {1000, 50000}}) {
      auto seconds = Append(**store, records, share, batch_size, rng);
      if (!seconds.ok()) return Fail(seconds.error());
      printf("append   %8.0f records/s in batches of %ld%s\n", static_cast<double>(share) / *seconds, batch_size,
             batch_size >= 1000 ? " (at least 10000)" : "");
      fflush(stdout);
    }
  }
  double start = SteadySeconds();
  auto store = OpenStore(path);
  double opened = SteadySeconds();
  if (!store.ok()) return Fail(store.error());
  printf("open     %8.2f ms (at most 100), %.0f MB\n", (opened - start) * 1e3, std::filesystem::file_size(path) / 1e6);

  std::vector<double> times;
  for (int i = 0; i < 20000; ++i) {
    std::string task = TaskHash(rng.Below(kTasks));
    start = SteadySeconds();
    auto best = (*store)->Best(task, kTargets[i % 2]);
    times.push_back(SteadySeconds() - start);
    if (!best.ok()) return Fail(best.error());
    if (records >= 100 * kTasks && !best->has_value()) return Fail(Err("no best for ", task));
  }
  std::sort(times.begin(), times.end());
  printf("best     %8.1f us median (at most 50), %.1f us p99\n", times[times.size() / 2] * 1e6,
         times[times.size() * 99 / 100] * 1e6);

  start = SteadySeconds();
  auto count = (*store)->Count({.task = TaskHash(7), .target = kTargets[0]});
  if (!count.ok()) return Fail(count.error());
  printf("count    %8.2f ms for %ld records of a task\n", (SteadySeconds() - start) * 1e3, *count);
  start = SteadySeconds();
  int64_t cursor = 0, seen = 0;
  for (;;) {
    auto page = (*store)->Scan({}, cursor, 1000);
    if (!page.ok()) return Fail(page.error());
    if (page->records.empty()) break;
    seen += static_cast<int64_t>(page->records.size());
    cursor = page->cursor;
  }
  printf("scan     %8.0f records/s\n", static_cast<double>(seen) / (SteadySeconds() - start));
  store->reset();
  if (temporary) {
    for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(path + suffix);
  }
  return seen >= records ? 0 : Fail(Err("scanned ", seen, " records"));
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) { return autotune::Main(argc > 1 ? atoll(argv[1]) : 1000000, argc > 2 ? argv[2] : ""); }
