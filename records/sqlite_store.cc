#include "records/sqlite_store.h"

#include <sys/stat.h>

#include <bit>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "records/distinct.h"
#include "records/file_lock.h"
#include "records/sqlite.h"
#include "support/hash.h"
#include "support/log.h"

namespace autotune {
namespace {

static_assert(std::endian::native == std::endian::little, "times are stored as little-endian doubles");

constexpr int kApplicationId = 0x4154554e;  // "ATUN"
constexpr int64_t kCheckpointPages = 1000;  // 4 MiB of log
constexpr int64_t kRestartPages = 16000;    // a log this long waits for its readers, then starts anew

// One entry per version: what turns a database of version i into one of version i + 1. Never edited, only appended to.
constexpr const char* kMigrations[] = {R"(
  CREATE TABLE text(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
  CREATE TABLE record(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    task INTEGER NOT NULL REFERENCES text(id),
    target INTEGER NOT NULL REFERENCES text(id),
    run INTEGER NOT NULL REFERENCES text(id),
    alternative INTEGER NOT NULL REFERENCES text(id),
    func INTEGER NOT NULL REFERENCES text(id),
    device INTEGER NOT NULL REFERENCES text(id),
    tenant INTEGER NOT NULL REFERENCES text(id),
    status TEXT NOT NULL,
    executed INTEGER NOT NULL,
    verified INTEGER NOT NULL,
    cost REAL NOT NULL,
    seed INTEGER NOT NULL,
    ir INTEGER NOT NULL,
    step_language INTEGER NOT NULL,
    feature_schema INTEGER NOT NULL,
    code_generator INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    times BLOB NOT NULL,
    error TEXT NOT NULL,
    trace TEXT NOT NULL,
    facts TEXT NOT NULL);
  CREATE INDEX record_ranked ON record(task, target, cost) WHERE status = 'ok' AND verified = 1;
  CREATE INDEX record_task ON record(task, target);
  CREATE INDEX record_run ON record(run, task);
  CREATE TABLE run(key TEXT PRIMARY KEY, state TEXT NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
  CREATE VIEW records AS
    SELECT r.seq, r.id AS id, task.body AS task, target.body AS target, run.body AS run,
           alternative.body AS alternative, func.body AS func, device.body AS device, tenant.body AS tenant, r.status,
           r.verified, r.cost, r.seed, r.ir, r.step_language, r.feature_schema, r.code_generator, r.created_at, r.times,
           r.error, r.trace, r.facts, r.executed, r.task AS task_id, r.target AS target_id, r.run AS run_id
    FROM record r CROSS JOIN text task ON task.id = r.task CROSS JOIN text target ON target.id = r.target
      CROSS JOIN text run ON run.id = r.run CROSS JOIN text alternative ON alternative.id = r.alternative
      CROSS JOIN text func ON func.id = r.func CROSS JOIN text device ON device.id = r.device
      CROSS JOIN text tenant ON tenant.id = r.tenant;
)"};
constexpr int kVersion = std::size(kMigrations);

// The order in which ReadRecord takes them.
constexpr char kColumns[] =
    "seq, id, task, target, run, alternative, func, device, tenant, status, verified, cost, seed, ir, step_language, "
    "feature_schema, code_generator, created_at, times, error, trace, facts";

std::string TextHash(std::string_view text) {
  std::string bytes;
  Hash128 hash = HashBytes128(text);
  for (uint64_t half : {hash.high, hash.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(half >> shift);
  }
  return bytes;
}

std::string UuidToBytes(std::string_view text) {
  std::string bytes;
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    if (text[i] == '-') ++i;
    bytes += static_cast<char>(digit(text[i]) << 4 | digit(text[i + 1]));
  }
  return bytes;
}

std::string UuidFromBytes(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[static_cast<unsigned char>(bytes[i]) >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

Result<Record> ReadRecord(const Query& row, const std::string& path) {
  Record r;
  r.id = UuidFromBytes(row.TextAt(1));
  r.task = row.TextAt(2);
  r.target = row.TextAt(3);
  r.run = row.TextAt(4);
  r.alternative = row.TextAt(5);
  r.func = row.TextAt(6);
  r.device = row.TextAt(7);
  r.tenant = row.TextAt(8);
  std::optional<TrialStatus> status = EnumFromText<TrialStatus>(row.TextAt(9));
  if (!status) return Err(path, " is damaged: record ", r.id, " has the unknown status '", row.TextAt(9), "'");
  r.status = *status;
  r.verified = row.IntAt(10) != 0;
  r.cost = row.RealAt(11);
  r.seed = static_cast<uint64_t>(row.IntAt(12));
  r.versions = {static_cast<int>(row.IntAt(13)), static_cast<int>(row.IntAt(14)), static_cast<int>(row.IntAt(15)),
                static_cast<int>(row.IntAt(16))};
  r.created_at = row.IntAt(17);
  std::string times = row.TextAt(18);
  r.times.resize(times.size() / sizeof(double));
  if (!r.times.empty()) std::memcpy(r.times.data(), times.data(), r.times.size() * sizeof(double));
  r.error = row.TextAt(19);
  r.trace = row.TextAt(20);
  r.facts = TRY_NOTE(Json::Parse(row.TextAt(21)), "while reading the facts of record " + r.id + " in " + path);
  return r;
}

Result<int64_t> Ask(Connection& connection, const char* sql) {
  Query query = TRY(Query::Make(connection, sql));
  TRY(query.Step());
  return query.IntAt(0);
}

// Refuses what is there but is no record database of ours, before anything is written to it, and gives its version. A
// database without a table becomes one: its maker may have died before it got further.
Result<int> CheckHeader(Connection& connection) {
  const std::string& path = connection.path();
  int64_t version = TRY(Ask(connection, "PRAGMA user_version"));
  int64_t application = TRY(Ask(connection, "PRAGMA application_id"));
  int64_t tables = TRY(Ask(connection, "SELECT count(*) FROM sqlite_master"));
  bool fresh = version == 0 && application == 0 && tables == 0;
  if (!fresh && application != kApplicationId) {
    return Err(path, " is an SQLite database, but not a record database: name another file with --db");
  }
  if (version > kVersion) {
    return Err(path, " was written by a newer autotune (format ", version, "; this one knows ", kVersion,
               "): update autotune, or name another database with --db");
  }
  return static_cast<int>(version);
}

// In one transaction: a process that dies here leaves the version as it was.
Status Migrate(Connection& connection, int version) {
  if (version == kVersion) return {};
  TRY(connection.Run("BEGIN IMMEDIATE"));
  for (; version < kVersion; ++version) TRY(connection.Run(kMigrations[version]));
  std::string mark = "PRAGMA user_version = " + std::to_string(kVersion) +
                     "; PRAGMA application_id = " + std::to_string(kApplicationId) + "; COMMIT";
  return connection.Run(mark.c_str());
}

class SqliteStore : public RecordStore {
 public:
  SqliteStore(const std::string& path, FileLock lock, const StoreOptions& options)
      : options_(options), lock_(std::move(lock)), writer_(path), reader_(path) {}

  ~SqliteStore() override {
    // A clean end leaves one file. If another process is busy, the log stays for the next one to open.
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

  Status Append(std::span<const Record> batch, const RunState* run) override {
    for (const Record& record : batch) TRY(ValidateRecord(record));
    if (batch.empty() && !run) return {};
    // The first thread to come commits for all that came while the commit before was under way.
    Pending mine{batch, run, {}, false};
    std::unique_lock lock(queue_mutex_);
    queue_.push_back(&mine);
    queue_changed_.wait(lock, [&] { return mine.done || !committing_; });
    if (mine.done) return mine.status;
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
    return status;
  }

  Result<std::vector<Record>> Top(std::string_view task, std::string_view target, int n) override {
    std::lock_guard lock(read_mutex_);
    static const std::string sql =
        std::string("SELECT ") + kColumns +
        " FROM records WHERE task_id = (SELECT id FROM text WHERE hash = ?) AND target_id = (SELECT id FROM text WHERE "
        "hash = ?) AND status = 'ok' AND verified = 1 ORDER BY cost, seq";
    std::string task_hash = TextHash(task), target_hash = TextHash(target);
    Query query = TRY(Query::Make(reader_, sql));
    query.Blob(task_hash).Blob(target_hash);
    DistinctSchedules top(n);
    while (!top.full() && TRY(query.Step())) top.Add(TRY(ReadRecord(query, reader_.path())));
    return top.Take();
  }

  Result<std::vector<std::string>> Targets(std::string_view task) override {
    std::lock_guard lock(read_mutex_);
    // Jumps from one target to the next in the index, however many records each has.
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

  Status Check() override {
    std::lock_guard lock(read_mutex_);
    Query query = TRY(Query::Make(reader_, "PRAGMA integrity_check(1)"));
    TRY(query.Step());
    std::string answer = query.TextAt(0);
    if (answer != "ok") return Err(reader_.path(), " is damaged: ", answer, "; ", kHowToMendDatabase);
    Query dangling = TRY(Query::Make(reader_, "PRAGMA foreign_key_check"));
    if (TRY(dangling.Step()))
      return Err(reader_.path(), " is damaged: a record refers to a lost text; ", kHowToMendDatabase);
    return {};
  }

 private:
  struct Pending {
    std::span<const Record> batch;
    const RunState* run;
    Status status;
    bool done;
  };

  Status OpenLocked() {
    const std::string& path = writer_.path();
    struct stat file, log;
    bool has_log = ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
    if (::stat(path.c_str(), &file) == 0 && file.st_size > 0) TRY(CheckSqliteFile(path, file.st_size, has_log));
    TRY(writer_.Open(options_.lock_timeout_ms));
    if (writer_.read_only()) {
      return Err(path, " is read-only: make it and its directory writable, or name another database with --db");
    }
    int version = TRY(CheckHeader(writer_));
    bool wal = options_.wal;
    if (wal && IsOnNetworkFileSystem(path)) {
      wal = false;
      SayOnceThatThereIsNoWal();
    }
    std::string mode = wal ? "wal" : "delete";
    Query query = TRY(Query::Make(writer_, "PRAGMA journal_mode = " + mode));
    TRY(query.Step());
    if (query.TextAt(0) != mode)
      return Err(path, ": cannot switch to journal mode ", mode, "; end other programs that use it");
    query.Reset();
    TRY(Migrate(writer_, version));
    return reader_.Open(options_.lock_timeout_ms);
  }

  void SayOnceThatThereIsNoWal() const {
    static std::mutex mutex;
    static std::set<std::string> said;
    std::lock_guard lock(mutex);
    if (said.insert(writer_.path()).second) {
      Log(LogLevel::kWarning, writer_.path(),
          " is on a network file system: it works without a write-ahead log there, slower; a local file is better");
    }
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
    for (const Pending* pending : group) {
      for (const Record& record : pending->batch) {
        if (status.ok()) status = Insert(record, text_ids);
      }
      if (status.ok() && pending->run) status = Insert(*pending->run);
    }
    if (status.ok()) status = writer_.Run("COMMIT");
    if (!status.ok()) {
      writer_.RollBack();
      return status;
    }
    // The batch is safe already: a checkpoint that fails is tried again after the next one.
    if (writer_.log_pages() >= kCheckpointPages) {
      bool long_log = writer_.log_pages() >= kRestartPages;
      writer_.MoveLog(long_log ? Connection::Checkpoint::kRestart : Connection::Checkpoint::kPassive);
    }
    return {};
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
        "seed, ir, step_language, feature_schema, code_generator, created_at, times, error, trace, facts) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING"));
    insert.Blob(id);
    for (int64_t text : ids) insert.Int(text);
    insert.Text(ToText(r.status)).Int(WasExecuted(r.status)).Int(r.verified).Real(r.cost);
    insert.Int(static_cast<int64_t>(r.seed)).Int(r.versions.ir).Int(r.versions.step_language);
    insert.Int(r.versions.feature_schema).Int(r.versions.code_generator).Int(r.created_at);
    return insert.Blob(times).Text(r.error).Text(r.trace).Text(facts).Do();
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

  std::mutex queue_mutex_;  // queue_, committing_
  std::condition_variable queue_changed_;
  std::vector<Pending*> queue_;
  bool committing_ = false;

  FileLock lock_;  // this and writer_: used by Open and by the one thread that is committing
  Connection writer_;

  std::mutex read_mutex_;  // reader_
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
  // Whatever name a process uses for the file, the lock is the same.
  std::string real = std::filesystem::weakly_canonical(path, error).string();
  if (error) return Err("cannot open ", path, ": ", error.message());
  FileLock lock = TRY_NOTE(FileLock::Open(real + ".lock"), "while opening the record database; --db names another one");
  auto store = std::make_unique<SqliteStore>(real, std::move(lock), options);
  TRY(store->Open());
  return std::unique_ptr<RecordStore>(std::move(store));
}

}  // namespace autotune
