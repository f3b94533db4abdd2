// Implements `autotune records export`, `import`, `merge` and `prune`.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "records/open.h"
#include "service/record_export.h"
#include "support/file.h"
#include "support/task_id.h"
#include "tools/autotune/console.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

constexpr int kBatch = 1000;  // records read or stored at a time
// The member of a JSON line that holds the state of a run. A line without it is a record.
constexpr char kRunMember[] = "run_state";

Status ForEachRecord(RecordStore& store, const RecordFilter& filter,
                     const std::function<Status(std::vector<Record>)>& use) {
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan(filter, cursor, kBatch));
    if (page.records.empty()) return {};
    cursor = page.cursor;
    TRY(use(std::move(page.records)));
  }
}

// Stores records that the database lacks, and states of runs that are newer than its own. Counts the records.
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
    Console& console = Console::Get();
    console.Report(CountText(seen_, "record") + " of " + from + ": " + std::to_string(added_) + " stored, " +
                   std::to_string(seen_ - added_) + " known already\n");
    if (!console.json()) return 0;
    Json line;
    line["from"] = from;
    line["records"] = seen_, line["stored"] = added_;
    console.Result(line);
    return 0;
  }

 private:
  RecordStore& store_;
  int64_t seen_ = 0, added_ = 0;
};

// Reads a file of JSON lines and passes each record to `record` and each state of a run to `run`. An error names the
// line.
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

// Passes the records of the task (empty: of all tasks) to `write` as whole lines. Lines of JSON of all tasks end with
// the states of all runs. Returns the number of records.
Result<int64_t> ExportLines(RecordStore& store, const RecordsOptions& options,
                            const std::function<Status(const std::string&)>& write) {
  const ExportFormat format = *EnumFromText<ExportFormat>(options.format);  // the command line accepts only its names
  RecordWriter writer(format, options.features);
  TRY(write(writer.Begin()));
  TRY(ForEachRecord(store, {}, [&](std::vector<Record> records) -> Status {
    std::string lines;
    for (const Record& record : records) {
      if (record.task.starts_with(options.task)) lines += writer.Next(record);
    }
    return write(lines);
  }));
  TRY(write(writer.End()));
  const int64_t count = writer.count();
  if (writer.without_features() > 0) {
    Console::Get().Note(std::to_string(writer.without_features()) + " of " + CountText(count, "record") +
                        " have no features, since this version cannot replay them");
  }
  if (!options.task.empty() || format != ExportFormat::kJsonl) return count;
  for (const RunState& run : TRY(store.Runs())) {
    Json line;
    line[kRunMember] = ToJson(run);
    TRY(write(line.Dump() + "\n"));
  }
  return count;
}

}  // namespace

Result<int> ExportRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  Console& console = Console::Get();
  if (options.file.empty()) {
    TRY(ExportLines(*store, options, [&](const std::string& lines) -> Status {
      console.Result(lines);
      return {};
    }));
    return 0;
  }
  int64_t count = 0;
  TRY(ReplaceFile(options.file, [&](int fd) -> Status {
    count =
        TRY(ExportLines(*store, options, [&](const std::string& lines) { return WriteAll(fd, lines, options.file); }));
    return {};
  }));
  console.Report("wrote " + CountText(count, "record") + " to " + options.file + "\n");
  if (!console.json()) return 0;
  Json line;
  line["file"] = options.file, line["records"] = count;
  console.Result(line);
  return 0;
}

Result<int> ImportRecords(const RecordsOptions& options) {
  // Check the whole file before anything is stored, so that a file with a bad line changes nothing.
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
  Console& console = Console::Get();
  const std::string deleted = options.dry_run ? "would delete " : "deleted ";
  for (const PruneCount& count : counts) {
    kept += count.kept;
    removed += count.removed;
    if (count.removed == 0) continue;
    console.Report(ShortTaskId(count.task) + ": " + deleted + std::to_string(count.removed) + " of " +
                   CountText(count.kept + count.removed, "record") + ", for " +
                   TargetName(count.target, targets, options.verbose) + "\n");
  }
  console.Report(deleted + CountText(removed, "record") + "; " + (options.dry_run ? "would keep " : "kept ") +
                 std::to_string(kept) + ", at most " + std::to_string(options.keep) + " for each of " +
                 CountText(static_cast<int64_t>(counts.size()), "task") +
                 (targets.size() > 1 ? " and targets\n" : "\n"));
  if (!console.json()) return 0;
  Json line;
  line["dry_run"] = options.dry_run;
  line["deleted"] = removed, line["kept"] = kept, line["keep"] = options.keep;
  console.Result(line);
  return 0;
}

}  // namespace autotune::tools
