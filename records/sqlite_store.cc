#include "records/sqlite_store.h"

#include <sys/stat.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <type_traits>

#include "records/distinct.h"
#include "records/file_lock.h"
#include "records/sqlite_claims.h"
#include "records/sqlite_prune.h"
#include "records/sqlite_schema.h"
#include "support/hash.h"
#include "support/hint.h"
#include "support/log.h"

namespace autotune {
namespace {

constexpr int64_t kCheckpointPages = 1000;  // length of the log (4 MiB) from which a commit makes a checkpoint
// Length of the log (64 MiB) from which a checkpoint waits for readers, so that the log starts again from its
// beginning.
constexpr int64_t kRestartPages = 16000;

class SqliteStore : public RecordStore {
 public:
  SqliteStore(const std::string& path, FileLock lock, const StoreOptions& options)
      : options_(options), lock_(std::move(lock)), writer_(path), reader_(path) {}

  ~SqliteStore() override {
    // Moves the log into the database, so that the database file is complete by itself. If another process holds the
    // lock, the log stays, and the next process that opens the database reads it.
    if (opened_ && lock_.Acquire(std::min(options_.lock_timeout_ms, 1000)).ok()) {
      writer_.MoveLog(Connection::Checkpoint::kTruncate);
      lock_.Release();
    }
  }

  Status Open() {
    TRY(lock_.Acquire(options_.lock_timeout_ms));
    Status status = OpenLocked();
    lock_.Release();
    opened_ = status.ok();
    return status;
  }

  Status Append(std::span<const Record> batch, const RunState* run, int64_t* added) override {
    if (added) *added = 0;
    for (const Record& record : batch) TRY(ValidateRecord(record));
    if (batch.empty() && !run) return {};
    // Group commit: threads that arrive during a commit wait in the queue. After this commit, one of them commits the
    // batches of all waiting threads in one transaction.
    Pending mine{batch, run, {}, false, 0};
    std::unique_lock lock(queue_mutex_);
    queue_.push_back(&mine);
    queue_changed_.wait(lock, [&] { return mine.done || !committing_; });
    auto finish = [&] {
      if (added && mine.status.ok()) *added = mine.added;
      return mine.status;
    };
    if (mine.done) return finish();
    std::vector<Pending*> group = std::move(queue_);
    queue_.clear();
    committing_ = true;
    lock.unlock();
    Status status = Commit(group);
    lock.lock();
    committing_ = false;
    for (Pending* pending : group) {
      pending->status = status;
      pending->done = true;
    }
    queue_changed_.notify_all();
    return finish();
  }

  Result<std::vector<Record>> Top(std::string_view task, std::string_view target, int n) override {
    std::lock_guard lock(read_mutex_);
    static const std::string sql =
        std::string("SELECT ") + kColumns +
        " FROM records WHERE task_id = (SELECT id FROM text WHERE hash = ?) AND target_id = (SELECT id FROM text WHERE "
        "hash = ?) AND status = 'ok' AND verified = 1 ORDER BY disturbed <> '', confirmation DESC, cost, seq";
    std::string task_hash = TextHash(task), target_hash = TextHash(target);
    Query query = TRY(Query::Make(reader_, sql));
    query.Blob(task_hash).Blob(target_hash);
    DistinctSchedules top(n);
    while (!top.full() && TRY(query.Step())) top.Add(TRY(ReadRecord(query, reader_.path())));
    return top.Take();
  }

  Result<std::vector<std::string>> Targets(std::string_view task) override {
    std::lock_guard lock(read_mutex_);
    // Looks up the next greater target in the index at each step, so the time does not grow with the number of records.
    Query query = TRY(Query::Make(reader_, R"(
      WITH RECURSIVE found(task, target) AS (
        SELECT task, min(target) FROM record
          WHERE task = (SELECT id FROM text WHERE hash = ?) AND status = 'ok' AND verified = 1
        UNION ALL
        SELECT task, (SELECT min(r.target) FROM record r
                        WHERE r.task = found.task AND r.target > found.target AND status = 'ok' AND verified = 1)
          FROM found WHERE target IS NOT NULL)
      SELECT body FROM found JOIN text ON text.id = found.target ORDER BY body)"));
    std::string hash = TextHash(task);
    query.Blob(hash);
    std::vector<std::string> targets;
    while (TRY(query.Step())) targets.push_back(query.TextAt(0));
    return targets;
  }

  Result<RecordPage> Scan(const RecordFilter& filter, int64_t cursor, int limit) override {
    std::lock_guard lock(read_mutex_);
    RecordPage page{{}, cursor};
    Query query = TRY(Query::Make(reader_, std::string("SELECT ") + kColumns + " FROM records WHERE seq > ?" +
                                               Conditions(filter) + " ORDER BY seq LIMIT ?"));
    std::vector<std::string> values = Values(filter);
    query.Int(cursor);
    for (const std::string& value : values) query.Blob(value);
    query.Int(limit);
    while (TRY(query.Step())) {
      page.records.push_back(TRY(ReadRecord(query, reader_.path())));
      page.cursor = query.IntAt(0);
    }
    return page;
  }

  Result<int64_t> Count(const RecordFilter& filter) override {
    std::lock_guard lock(read_mutex_);
    std::string conditions = Conditions(filter);
    Query query = TRY(Query::Make(
        reader_,
        "SELECT count(*) FROM (SELECT task AS task_id, target AS target_id, run AS run_id, status, executed "
        "FROM record) WHERE 1" +
            conditions));
    std::vector<std::string> values = Values(filter);
    for (const std::string& value : values) query.Blob(value);
    TRY(query.Step());
    return query.IntAt(0);
  }

  Result<std::optional<RunState>> GetRun(std::string_view key) override {
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, "SELECT state, updated_at FROM run WHERE key = ?"));
    if (!TRY(query.Text(key).Step())) return std::optional<RunState>();
    RunState run;
    run.key = key;
    run.state = TRY_NOTE(Json::Parse(query.TextAt(0)), "while reading the state of run " + run.key);
    run.updated_at = query.IntAt(1);
    return std::optional<RunState>(std::move(run));
  }

  Result<std::vector<RunState>> Runs() override {
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, "SELECT key, state, updated_at FROM run ORDER BY key"));
    std::vector<RunState> runs;
    while (TRY(query.Step())) {
      RunState run;
      run.key = query.TextAt(0);
      run.state = TRY_NOTE(Json::Parse(query.TextAt(1)), "while reading the state of run " + run.key);
      run.updated_at = query.IntAt(2);
      runs.push_back(std::move(run));
    }
    return runs;
  }

  Result<bool> RemoveRun(std::string_view key) override {
    return WithoutCommits([&] { return RemoveRunAlone(key); });
  }

  Result<RunClaim> Claim(std::string_view run, const RunOwner& owner, int64_t ttl_ms) override {
    return InTransaction([&] { return claims_.Claim(run, owner, ttl_ms); });
  }

  Status Release(std::string_view run, const RunOwner& owner) override {
    return InTransaction([&] { return claims_.Release(run, owner); });
  }

  Result<std::optional<Record>> Get(std::string_view id) override {
    if (!IsRecordId(id)) return std::optional<Record>();
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, std::string("SELECT ") + kColumns + " FROM records WHERE id = ?"));
    std::string bytes = UuidToBytes(id);
    if (!TRY(query.Blob(bytes).Step())) return std::optional<Record>();
    return std::optional<Record>(TRY(ReadRecord(query, reader_.path())));
  }

  Result<std::vector<TaskSummary>> Tasks() override {
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, R"(
      SELECT task.body, target.body, n, executed, ranked
        FROM (SELECT r.task, r.target, count(*) AS n, sum(executed) AS executed,
                     sum(status = 'ok' AND verified = 1) AS ranked
                FROM record r GROUP BY r.task, r.target) g
        JOIN text task ON task.id = g.task JOIN text target ON target.id = g.target ORDER BY 1, 2)"));
    std::vector<TaskSummary> tasks;
    while (TRY(query.Step())) {
      tasks.push_back({.task = query.TextAt(0),
                       .target = query.TextAt(1),
                       .records = query.IntAt(2),
                       .trials = query.IntAt(3),
                       .ranked = query.IntAt(4)});
    }
    return tasks;
  }

  Result<std::vector<PruneCount>> Prune(int keep, bool dry_run) override {
    return WithoutCommits([&] { return PruneAlone(keep, dry_run); });
  }

  Status Check() override {
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, "PRAGMA integrity_check(1)"));
    TRY(query.Step());
    std::string answer = query.TextAt(0);
    if (answer != "ok") return Damaged(answer);
    Query dangling = TRY(Query::Make(reader_, "PRAGMA foreign_key_check"));
    if (TRY(dangling.Step())) return Damaged("a record refers to a lost text");
    return {};
  }

 private:
  Error Damaged(const std::string& how) const {
    return WithHint(Err(reader_.path(), " is damaged: ", how), std::string(kHowToMendDatabase));
  }
  struct Pending {
    std::span<const Record> batch;
    const RunState* run;
    Status status;
    bool done;
    int64_t added;
  };

  Status OpenLocked() {
    const std::string& path = writer_.path();
    struct stat file, log;
    bool has_log = ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
    if (::stat(path.c_str(), &file) == 0 && file.st_size > 0) TRY(CheckSqliteFile(path, file.st_size, has_log));
    bool wal = options_.wal && CanHaveLog();
    // Even if this connection uses no log (!wal), another process may have left one. A sole user (kAlone) reads that
    // log without shared memory, and the change of the journal mode below removes it.
    TRY(writer_.Open(options_.lock_timeout_ms, wal ? Connection::Users::kMany : Connection::Users::kAlone));
    if (writer_.read_only()) {
      return Err(path, " is read-only: make it and its directory writable, or name another database with --db");
    }
    int version = TRY(CheckHeader(writer_));
    std::string mode = wal ? "wal" : "delete";
    Query query = TRY(Query::Make(writer_, "PRAGMA journal_mode = " + mode));
    TRY(query.Step());
    if (query.TextAt(0) != mode)
      return Err(path, ": cannot switch to journal mode ", mode, "; end other programs that use it");
    query.Reset();
    TRY(Migrate(writer_, version));
    if (!wal) TRY(writer_.Share());
    return reader_.Open(options_.lock_timeout_ms);
  }

  // Returns true if this file system allows a write-ahead log, whose index is memory that processes share. Otherwise
  // logs a warning, once for each file.
  bool CanHaveLog() const {
    bool network = IsOnNetworkFileSystem(writer_.path());
    if (!network && lock_.CanShareMemory()) return true;
    static std::mutex mutex;
    static std::set<std::string> said;
    std::lock_guard lock(mutex);
    if (said.insert(writer_.path()).second) {
      Log(LogLevel::kWarning, writer_.path(), " is on a ",
          network ? "network file system" : "file system without shared memory",
          ", so the record database works without a write-ahead log and is slower; name a local file with --db");
    }
    return false;
  }

  Status Commit(const std::vector<Pending*>& group) {
    TRY(lock_.Acquire(options_.lock_timeout_ms));
    Status status = CommitLocked(group);
    lock_.Release();
    return status;
  }

  Status CommitLocked(const std::vector<Pending*>& group) {
    Status status = writer_.Run("BEGIN IMMEDIATE");
    std::map<std::string_view, int64_t> text_ids;
    for (Pending* pending : group) {
      if (status.ok()) status = claims_.MayAppend(pending->batch, pending->run);
      for (const Record& record : pending->batch) {
        if (!status.ok()) break;
        status = Insert(record, text_ids);
        pending->added += writer_.changed_rows();
      }
      if (status.ok() && pending->run) status = Insert(*pending->run);
    }
    if (status.ok()) status = writer_.Run("COMMIT");
    if (!status.ok()) {
      writer_.RollBack();
      return status;
    }
    // The batch is already safe on disk. If the checkpoint fails, the next commit tries again.
    if (writer_.log_pages() >= kCheckpointPages) {
      bool long_log = writer_.log_pages() >= kRestartPages;
      writer_.MoveLog(long_log ? Connection::Checkpoint::kRestart : Connection::Checkpoint::kPassive);
    }
    return {};
  }

  // Calls `work` while no thread of this process commits.
  template <typename Work>
  std::invoke_result_t<Work> WithoutCommits(const Work& work) {
    std::unique_lock lock(queue_mutex_);
    queue_changed_.wait(lock, [&] { return !committing_; });
    committing_ = true;
    lock.unlock();
    auto result = work();
    lock.lock();
    committing_ = false;
    queue_changed_.notify_all();
    return result;
  }

  // Calls `work` in a transaction of its own.
  template <typename Work>
  std::invoke_result_t<Work> InTransaction(const Work& work) {
    return WithoutCommits([&]() -> std::invoke_result_t<Work> {
      TRY(lock_.Acquire(options_.lock_timeout_ms));
      auto transact = [&]() -> std::invoke_result_t<Work> {
        TRY(writer_.Run("BEGIN IMMEDIATE"));
        auto result = work();
        if (result.ok()) TRY(writer_.Run("COMMIT"));
        return result;
      };
      auto result = transact();
      if (!result.ok()) writer_.RollBack();
      lock_.Release();
      return result;
    });
  }

  Result<bool> RemoveRunAlone(std::string_view key) {
    TRY(lock_.Acquire(options_.lock_timeout_ms));
    auto remove = [&]() -> Result<bool> {
      Query query = TRY(Query::Make(writer_, "DELETE FROM run WHERE key = ?"));
      TRY(query.Text(key).Do());
      return writer_.changed_rows() > 0;
    };
    Result<bool> removed = remove();
    lock_.Release();
    return removed;
  }

  Result<std::vector<PruneCount>> PruneAlone(int keep, bool dry_run) {
    TRY(lock_.Acquire(options_.lock_timeout_ms));
    Result<std::vector<PruneCount>> counts = PruneTables(writer_, keep, dry_run);
    if (!counts.ok()) writer_.RollBack();
    // VACUUM shrinks the file. If that fails, for example on a full disk, later records reuse the free pages.
    if (counts.ok() && !dry_run) {
      (void)writer_.Run("VACUUM");
      writer_.MoveLog(Connection::Checkpoint::kTruncate);
    }
    lock_.Release();
    return counts;
  }

  Result<int64_t> TextId(std::string_view text, std::map<std::string_view, int64_t>& known) {
    auto [it, is_new] = known.emplace(text, 0);
    if (!is_new) return it->second;
    std::string hash = TextHash(text);
    Query find = TRY(Query::Make(writer_, "SELECT id FROM text WHERE hash = ?"));
    if (TRY(find.Blob(hash).Step())) return it->second = find.IntAt(0);
    Query insert = TRY(Query::Make(writer_, "INSERT INTO text(hash, body) VALUES(?, ?)"));
    TRY(insert.Blob(hash).Text(text).Do());
    return it->second = writer_.last_row_id();
  }

  Status Insert(const Record& r, std::map<std::string_view, int64_t>& text_ids) {
    int64_t ids[7];
    const std::string* texts[7] = {&r.task, &r.target, &r.run, &r.alternative, &r.func, &r.device, &r.tenant};
    for (int i = 0; i < 7; ++i) ids[i] = TRY(TextId(*texts[i], text_ids));
    std::string id = UuidToBytes(r.id), facts = r.facts.Dump();
    std::string_view times(reinterpret_cast<const char*>(r.times.data()), r.times.size() * sizeof(double));
    Query insert = TRY(Query::Make(
        writer_,
        "INSERT INTO record(id, task, target, run, alternative, func, device, tenant, status, executed, verified, "
        "cost, "
        "seed, ir, step_language, feature_schema, code_generator, created_at, times, error, trace, facts, "
        "confirmation, disturbed, server) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO "
        "NOTHING"));
    insert.Blob(id);
    for (int64_t text : ids) insert.Int(text);
    insert.Text(ToText(r.status)).Int(IsTrial(r)).Int(r.verified).Real(r.cost);
    insert.Int(static_cast<int64_t>(r.seed)).Int(r.versions.ir).Int(r.versions.step_language);
    insert.Int(r.versions.feature_schema).Int(r.versions.code_generator).Int(r.created_at);
    return insert.Blob(times)
        .Text(r.error)
        .Text(r.trace)
        .Text(facts)
        .Int(r.confirmation)
        .Text(r.disturbed)
        .Text(r.server)
        .Do();
  }

  Status Insert(const RunState& run) {
    std::string state = run.state.Dump();
    Query insert = TRY(Query::Make(writer_,
                                   "INSERT INTO run(key, state, updated_at) VALUES(?, ?, ?) ON CONFLICT(key) "
                                   "DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at"));
    return insert.Text(run.key).Text(state).Int(run.updated_at).Do();
  }

  static std::string Conditions(const RecordFilter& filter) {
    std::string sql;
    if (!filter.task.empty()) sql += " AND task_id = (SELECT id FROM text WHERE hash = ?)";
    if (!filter.target.empty()) sql += " AND target_id = (SELECT id FROM text WHERE hash = ?)";
    if (!filter.run.empty()) sql += " AND run_id = (SELECT id FROM text WHERE hash = ?)";
    if (filter.status) sql += " AND status = '" + std::string(ToText(*filter.status)) + "'";
    if (filter.trials_only) sql += " AND executed = 1";
    return sql;
  }
  static std::vector<std::string> Values(const RecordFilter& filter) {
    std::vector<std::string> values;
    for (const std::string* text : {&filter.task, &filter.target, &filter.run}) {
      if (!text->empty()) values.push_back(TextHash(*text));
    }
    return values;
  }

  const StoreOptions options_;
  bool opened_ = false;

  std::mutex queue_mutex_;  // guards queue_ and committing_
  std::condition_variable queue_changed_;
  std::vector<Pending*> queue_;
  bool committing_ = false;

  // Only Open and the one thread that is committing use lock_, writer_ and claims_.
  FileLock lock_;
  Connection writer_;
  SqliteClaims claims_{writer_};

  std::mutex read_mutex_;  // guards reader_
  Connection reader_;
};

}  // namespace

Result<std::unique_ptr<RecordStore>> OpenSqliteStore(const std::string& path, const StoreOptions& options) {
  std::filesystem::path directory = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return Err("cannot open ", path, ": there is no directory ", directory.string());
  }
  if (std::filesystem::is_directory(path, error)) return Err("cannot open ", path, ": it is a directory");
  if (!options.create && !std::filesystem::exists(path, error)) {
    return WithHint(Err("there is no record database ", path), "name one with --db or AUTOTUNE_DB");
  }
  // The lock file's name comes from the canonical path, so that processes with different names for the file share a
  // lock.
  std::string real = std::filesystem::weakly_canonical(path, error).string();
  if (error) return Err("cannot open ", path, ": ", error.message());
  Result<FileLock> opened = FileLock::Open(real + ".lock");
  if (!opened.ok())
    return WithHint(std::move(opened).error().Note("while opening the record database"), "name another one with --db");
  FileLock lock = std::move(opened).value();
  auto store = std::make_unique<SqliteStore>(real, std::move(lock), options);
  TRY(store->Open());
  return std::unique_ptr<RecordStore>(std::move(store));
}

}  // namespace autotune
