#include "records/sqlite.h"
#include "support/hint.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

namespace autotune {

Status CheckSqliteFile(const std::string& path, int64_t size, bool has_log) {
  std::string header(100, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(header.data(), std::min<int64_t>(size, 100))) return Err("cannot read ", path, ": ", strerror(errno));
  if (std::string_view magic("SQLite format 3\0", 16); header.substr(0, 16) != magic) {
    return Err(path, " is not a record database: name another file with --db");
  }
  auto big_endian = [&](int offset, int bytes) {
    int64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(header[offset + i]);
    return value;
  };
  int64_t page = big_endian(16, 2) == 1 ? 65536 : big_endian(16, 2);
  int64_t whole = std::max<int64_t>(100, page * big_endian(28, 4));
  if (size < whole && !has_log) {
    return WithHint(Err(path, " is damaged: it was cut off after ", size, " of ", whole, " bytes"),
                    std::string(kHowToMendDatabase));
  }
  return {};
}

Connection::~Connection() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

Status Connection::Open(int busy_timeout_ms, Users users) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (sqlite3_open_v2(path_.c_str(), &db_, flags, nullptr) != SQLITE_OK) return Fail();
  sqlite3_busy_timeout(db_, busy_timeout_ms);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // SQLite implements its automatic checkpoints with this hook, so setting another one turns them off.
  auto note_length = [](void* self, sqlite3*, const char*, int pages) {
    static_cast<Connection*>(self)->log_pages_ = pages;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(db_, note_length, this);
  if (users == Users::kAlone) TRY(Run("PRAGMA locking_mode = EXCLUSIVE"));  // before the first access
  return Run("PRAGMA synchronous = FULL; PRAGMA cache_size = -16000");
}

// SQLite gives up its exclusive lock at the next access to the file. So a query follows the change of mode.
Status Connection::Share() { return Run("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema"); }

bool Connection::read_only() const { return sqlite3_db_readonly(db_, "main") == 1; }

Status Connection::Run(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Fail();
  return {};
}

void Connection::RollBack() {
  if (!sqlite3_get_autocommit(db_)) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

int64_t Connection::changed_rows() const { return sqlite3_changes64(db_); }

int64_t Connection::last_row_id() const { return sqlite3_last_insert_rowid(db_); }

void Connection::MoveLog(Checkpoint mode) {
  int code = mode == Checkpoint::kPassive   ? SQLITE_CHECKPOINT_PASSIVE
             : mode == Checkpoint::kRestart ? SQLITE_CHECKPOINT_RESTART
                                            : SQLITE_CHECKPOINT_TRUNCATE;
  sqlite3_wal_checkpoint_v2(db_, nullptr, code, nullptr, nullptr);
}

Error Connection::Fail() const {
  int code = sqlite3_extended_errcode(db_);
  std::string reason = std::string(sqlite3_errmsg(db_)) + " (SQLite code " + std::to_string(code) + ")";
  switch (code & 0xff) {
    case SQLITE_FULL:
      return WithHint(Err("the disk that holds ", path_, " is full: nothing of this batch was stored"),
                      "free some space and repeat");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return WithHint(Err(path_, " is locked by another program: ", reason), "wait until it is done, or end it");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return WithHint(Err(path_, " is read-only"),
                      "make it and its directory writable, or name another database with --db");
    case SQLITE_CANTOPEN:
      return WithHint(Err("cannot open ", path_, ": ", strerror(sqlite3_system_errno(db_))),
                      "name another database with --db");
    case SQLITE_NOTADB:
      return WithHint(Err(path_, " is not a record database"), "name another file with --db");
    case SQLITE_CORRUPT:
      return WithHint(Err(path_, " is damaged: ", reason), std::string(kHowToMendDatabase));
    case SQLITE_IOERR:
      return Err("cannot read or write ", path_, ": ", reason, ", ", strerror(sqlite3_system_errno(db_)));
    default:
      return Err(path_, ": ", reason);
  }
}

Result<Query> Query::Make(Connection& connection, const std::string& sql) {
  sqlite3_stmt*& statement = connection.statements_[sql];
  if (!statement && sqlite3_prepare_v3(connection.db_, sql.c_str(), static_cast<int>(sql.size()),
                                       SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
    return connection.Fail();
  }
  return Query(connection, statement);
}

Query::Query(Query&& other) noexcept
    : connection_(other.connection_), statement_(std::exchange(other.statement_, nullptr)), bound_(other.bound_) {}

// Binds "" for an empty view with a null pointer, which SQLite would store as NULL.
Query& Query::Text(std::string_view text) {
  const char* data = text.data() ? text.data() : "";
  sqlite3_bind_text(statement_, ++bound_, data, static_cast<int>(text.size()), SQLITE_STATIC);
  return *this;
}

Query& Query::Blob(std::string_view bytes) {
  const char* data = bytes.data() ? bytes.data() : "";
  sqlite3_bind_blob(statement_, ++bound_, data, static_cast<int>(bytes.size()), SQLITE_STATIC);
  return *this;
}

Query& Query::Int(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}

Query& Query::Real(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}

Result<bool> Query::Step() {
  int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->Fail();
}

Status Query::Do() {
  TRY(Step());
  Reset();
  return {};
}

void Query::Reset() {
  if (statement_) sqlite3_reset(statement_);
  bound_ = 0;
}

int64_t Query::IntAt(int column) const { return sqlite3_column_int64(statement_, column); }
double Query::RealAt(int column) const { return sqlite3_column_double(statement_, column); }

std::string Query::TextAt(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  return data ? std::string(static_cast<const char*>(data), sqlite3_column_bytes(statement_, column)) : std::string();
}

}  // namespace autotune
