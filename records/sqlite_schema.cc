#include "records/sqlite_schema.h"

#include <bit>
#include <cstring>

#include "records/open.h"
#include "support/hash.h"

namespace autotune {
namespace {

static_assert(std::endian::native == std::endian::little, "times are stored as little-endian doubles");

constexpr int kApplicationId = 0x4154554e;  // "ATUN"

// Entry i turns a database of version i into one of version i + 1. Databases of all versions exist, so entries may be
// appended but never edited.
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
)",
                                       R"(
  ALTER TABLE record ADD COLUMN confirmation INTEGER NOT NULL DEFAULT 0;
  DROP INDEX record_ranked;
  CREATE INDEX record_ranked ON record(task, target, confirmation DESC, cost) WHERE status = 'ok' AND verified = 1;
  DROP VIEW records;
  CREATE VIEW records AS
    SELECT r.seq, r.id AS id, task.body AS task, target.body AS target, run.body AS run,
           alternative.body AS alternative, func.body AS func, device.body AS device, tenant.body AS tenant, r.status,
           r.verified, r.cost, r.seed, r.ir, r.step_language, r.feature_schema, r.code_generator, r.created_at, r.times,
           r.confirmation,
           r.error, r.trace, r.facts, r.executed, r.task AS task_id, r.target AS target_id, r.run AS run_id
    FROM record r CROSS JOIN text task ON task.id = r.task CROSS JOIN text target ON target.id = r.target
      CROSS JOIN text run ON run.id = r.run CROSS JOIN text alternative ON alternative.id = r.alternative
      CROSS JOIN text func ON func.id = r.func CROSS JOIN text device ON device.id = r.device
      CROSS JOIN text tenant ON tenant.id = r.tenant;
)",
                                       R"(
  CREATE TABLE claim(run TEXT PRIMARY KEY, owner TEXT NOT NULL, renewals INTEGER NOT NULL, ttl_ms INTEGER NOT NULL)
    WITHOUT ROWID;
)",
                                       R"(
  ALTER TABLE record ADD COLUMN disturbed TEXT NOT NULL DEFAULT '';
  DROP INDEX record_ranked;
  CREATE INDEX record_ranked ON record(task, target, (disturbed <> ''), confirmation DESC, cost)
    WHERE status = 'ok' AND verified = 1;
  DROP VIEW records;
  CREATE VIEW records AS
    SELECT r.seq, r.id AS id, task.body AS task, target.body AS target, run.body AS run,
           alternative.body AS alternative, func.body AS func, device.body AS device, tenant.body AS tenant, r.status,
           r.verified, r.disturbed, r.cost, r.seed, r.ir, r.step_language, r.feature_schema, r.code_generator,
           r.created_at, r.times, r.confirmation,
           r.error, r.trace, r.facts, r.executed, r.task AS task_id, r.target AS target_id, r.run AS run_id
    FROM record r CROSS JOIN text task ON task.id = r.task CROSS JOIN text target ON target.id = r.target
      CROSS JOIN text run ON run.id = r.run CROSS JOIN text alternative ON alternative.id = r.alternative
      CROSS JOIN text func ON func.id = r.func CROSS JOIN text device ON device.id = r.device
      CROSS JOIN text tenant ON tenant.id = r.tenant;
)",
                                       R"(
  ALTER TABLE record ADD COLUMN server TEXT NOT NULL DEFAULT '';
  DROP VIEW records;
  CREATE VIEW records AS
    SELECT r.seq, r.id AS id, task.body AS task, target.body AS target, run.body AS run,
           alternative.body AS alternative, func.body AS func, device.body AS device, r.server, tenant.body AS tenant,
           r.status, r.verified, r.disturbed, r.cost, r.seed, r.ir, r.step_language, r.feature_schema,
           r.code_generator, r.created_at, r.times, r.confirmation,
           r.error, r.trace, r.facts, r.executed, r.task AS task_id, r.target AS target_id, r.run AS run_id
    FROM record r CROSS JOIN text task ON task.id = r.task CROSS JOIN text target ON target.id = r.target
      CROSS JOIN text run ON run.id = r.run CROSS JOIN text alternative ON alternative.id = r.alternative
      CROSS JOIN text func ON func.id = r.func CROSS JOIN text device ON device.id = r.device
      CROSS JOIN text tenant ON tenant.id = r.tenant;
)"};
constexpr int kVersion = std::size(kMigrations);

}  // namespace

int StoreVersion() { return kVersion; }

namespace {

std::string UuidFromBytes(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[static_cast<unsigned char>(bytes[i]) >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

Result<int64_t> Ask(Connection& connection, const char* sql) {
  Query query = TRY(Query::Make(connection, sql));
  TRY(query.Step());
  return query.IntAt(0);
}

}  // namespace

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
  r.confirmation = row.IntAt(22);
  r.disturbed = row.TextAt(23);
  r.server = row.TextAt(24);
  r.facts = TRY_NOTE(Json::Parse(row.TextAt(21)), "while reading the facts of record " + r.id + " in " + path);
  return r;
}

Status Migrate(Connection& connection, int version) {
  if (version == kVersion) return {};
  TRY(connection.Run("BEGIN IMMEDIATE"));
  for (; version < kVersion; ++version) TRY(connection.Run(kMigrations[version]));
  std::string mark = "PRAGMA user_version = " + std::to_string(kVersion) +
                     "; PRAGMA application_id = " + std::to_string(kApplicationId) + "; COMMIT";
  return connection.Run(mark.c_str());
}

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

}  // namespace autotune
