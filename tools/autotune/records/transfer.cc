// Implements `autotune records export`, `import`, `merge` and `prune`.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "records/open.h"
#include "support/task_id.h"
#include "tools/autotune/records/records.h"

namespace autotune::tools {
namespace {

constexpr int kBatch = 1000;                // records
constexpr char kRunMember[] = "run_state";  // a line with this member is the state of a run, any other line a record

Status ForEachRecord(RecordStore& store, const RecordFilter& filter,
                     const std::function<Status(std::vector<Record>)>& use) {
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan(filter, cursor, kBatch));
    if (page.records.empty()) return {};
    cursor = page.cursor;
    TRY(use(std::move(page.records)));
  }
}

// Stores the records and the states of runs that the database does not have yet, and counts the records.
class Importer {
 public:
  explicit Importer(RecordStore& store) : store_(store) {}
  Status Add(std::vector<Record> batch) {
    int64_t added = 0;
    TRY(store_.Append(batch, nullptr, &added));
    added_ += added;
    seen_ += static_cast<int64_t>(batch.size());
    return {};
  }
  // Stores the state of a run, unless the database has a later state of this run.
  Status Add(const RunState& run) {
    std::optional<RunState> known = TRY(store_.GetRun(run.key));
    if (known && known->updated_at >= run.updated_at) return {};
    return store_.PutRun(run);
  }
  int Report(const std::string& from) const {
    std::printf("%ld records of %s: %ld stored, %ld known already\n", static_cast<long>(seen_), from.c_str(),
                static_cast<long>(added_), static_cast<long>(seen_ - added_));
    return 0;
  }

 private:
  RecordStore& store_;
  int64_t seen_ = 0, added_ = 0;
};

// Calls `record` or `run` for each line of a file of JSON lines. An error names the line.
Status ReadLines(const std::string& path, const std::function<Status(Record)>& record,
                 const std::function<Status(RunState)>& run) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    return Err("cannot read ", path, ": ", file ? "it is a folder" : strerror(errno));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto parse = [&]() -> Status {
      Json json = TRY(Json::Parse(line));
      if (!json.As<Json::Object>()) return Err("not an object");
      if (const Json& state = json[kRunMember]; !state.IsNull()) {
        RunState parsed = TRY(FromJson<RunState>(state));
        if (parsed.key.empty()) return Err("the state of a run without a key");
        return run(std::move(parsed));
      }
      Record parsed = TRY(FromJson<Record>(json));
      TRY(ValidateRecord(parsed));
      return record(std::move(parsed));
    };
    TRY_NOTE(parse(), path + ", line " + std::to_string(number));
  }
  if (file.bad()) return Err("cannot read ", path, ": ", strerror(errno));
  return {};
}

}  // namespace

Result<int> ExportRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  std::FILE* out = options.file.empty() ? stdout : std::fopen(options.file.c_str(), "w");
  if (!out) return Err("cannot write ", options.file, ": ", strerror(errno));
  int64_t count = 0;
  auto write = [&](const Json& json) -> Status {
    if (std::fprintf(out, "%s\n", json.Dump().c_str()) < 0) return Err("cannot write: ", strerror(errno));
    return {};
  };
  auto all = [&]() -> Status {
    TRY(ForEachRecord(*store, {}, [&](std::vector<Record> records) -> Status {
      for (const Record& record : records) {
        if (!record.task.starts_with(options.task)) continue;
        TRY(write(ToJson(record)));
        ++count;
      }
      return {};
    }));
    if (!options.task.empty()) return {};
    for (const RunState& run : TRY(store->Runs())) {
      Json line;
      line[kRunMember] = ToJson(run);
      TRY(write(line));
    }
    return {};
  };
  Status written = all();
  bool flushed = std::fflush(out) == 0;
  if (out != stdout) flushed = std::fclose(out) == 0 && flushed;
  TRY(written);
  if (!flushed) return Err("cannot write ", options.file.empty() ? "the records" : options.file, ": ", strerror(errno));
  if (!options.file.empty()) std::printf("wrote %ld records to %s\n", static_cast<long>(count), options.file.c_str());
  return 0;
}

Result<int> ImportRecords(const RecordsOptions& options) {
  // Reads the whole file first, so that a file with a bad line changes nothing.
  TRY(ReadLines(
      options.file, [](Record) { return Status(); }, [](RunState) { return Status(); }));
  std::unique_ptr<RecordStore> store = TRY(OpenStore(options.db));
  Importer importer(*store);
  std::vector<Record> batch;
  TRY(ReadLines(
      options.file,
      [&](Record record) -> Status {
        batch.push_back(std::move(record));
        if (static_cast<int>(batch.size()) < kBatch) return {};
        return importer.Add(std::exchange(batch, {}));
      },
      [&](RunState run) { return importer.Add(run); }));
  TRY(importer.Add(std::move(batch)));
  return importer.Report(options.file);
}

Result<int> MergeRecords(const RecordsOptions& options) {
  std::string path = options.db.empty() ? TRY(DefaultStorePath()) : options.db;
  std::error_code error;
  if (std::filesystem::equivalent(path, options.file, error))
    return Err(options.file, " is the same database as ", path);
  std::unique_ptr<RecordStore> other = TRY(OpenExistingStore(options.file));
  std::unique_ptr<RecordStore> store = TRY(OpenStore(options.db));
  Importer importer(*store);
  TRY(ForEachRecord(*other, {}, [&](std::vector<Record> records) { return importer.Add(std::move(records)); }));
  for (const RunState& run : TRY(other->Runs())) TRY(importer.Add(run));
  return importer.Report(options.file);
}

Result<int> PruneRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  int64_t kept = 0, removed = 0;
  std::vector<PruneCount> counts = TRY(store->Prune(options.keep, options.dry_run));
  std::set<std::string> targets;
  for (const PruneCount& count : counts) targets.insert(count.target);
  for (const PruneCount& count : counts) {
    kept += count.kept;
    removed += count.removed;
    if (count.removed > 0) {
      std::printf("%s: %s %ld of %ld records, for %s\n", ShortTaskId(count.task).c_str(),
                  options.dry_run ? "would delete" : "deleted", static_cast<long>(count.removed),
                  static_cast<long>(count.kept + count.removed),
                  TargetName(count.target, targets, options.verbose).c_str());
    }
  }
  std::printf("%s %ld records; %s %ld, at most %d for each of %zu tasks and targets\n",
              options.dry_run ? "would delete" : "deleted", static_cast<long>(removed),
              options.dry_run ? "would keep" : "kept", static_cast<long>(kept), options.keep, counts.size());
  return 0;
}

}  // namespace autotune::tools
