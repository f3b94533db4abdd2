// A connection to SQLite, and queries whose errors are one line for the user. Only sqlite.cc calls SQLite; it does not
// know the meaning of the tables. Not thread-safe: one thread at a time per connection.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "support/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace autotune {

inline constexpr std::string_view kHowToMendDatabase =
    "restore it from a copy, or salvage what is left with: sqlite3 FILE .recover";

// Checks the first 100 bytes of a database file of `size` bytes. Refuses a file that is too short to be a database,
// which SQLite would treat as empty, and a file whose end is missing, which SQLite would notice only when it reads a
// missing page. While a write-ahead log exists (`has_log`), the file may be shorter than its header says.
Status CheckSqliteFile(const std::string& path, int64_t size, bool has_log);

class Connection {
 public:
  explicit Connection(std::string path) : path_(std::move(path)) {}
  ~Connection();
  Connection(const Connection&) = delete;

  // Opens or creates the file. Commits wait for the disk (synchronous = FULL). SQLite makes no checkpoints by itself:
  // the caller makes them with MoveLog, while it holds the lock between processes. kAlone keeps other connections out
  // until Share is called; meanwhile, a log needs no shared memory.
  enum class Users { kMany, kAlone };
  Status Open(int busy_timeout_ms, Users users = Users::kMany);
  Status Share();
  bool read_only() const;
  // Runs statements without results, separated by semicolons.
  Status Run(const char* sql);
  // Ends a transaction that failed, if one is open.
  void RollBack();
  int64_t last_row_id() const;
  int64_t changed_rows() const;  // number of rows that the last insertion, update or deletion changed

  enum class Checkpoint { kPassive, kRestart, kTruncate };
  // Makes a checkpoint: copies the log into the database. Pages that other connections still read stay in the log until
  // a later checkpoint.
  void MoveLog(Checkpoint mode);
  // Length of the log after the last commit, in pages of 4 KiB; 0 without a write-ahead log.
  int64_t log_pages() const { return log_pages_; }
  const std::string& path() const { return path_; }

 private:
  friend class Query;
  Error Fail() const;  // the last error, and what the user can do about it
  std::string path_;
  sqlite3* db_ = nullptr;
  int64_t log_pages_ = 0;
  std::map<std::string, sqlite3_stmt*> statements_;  // prepared statements by their SQL
};

// One execution of a statement. The destructor closes the statement's snapshot of the database.
class Query {
 public:
  static Result<Query> Make(Connection& connection, const std::string& sql);
  Query(Query&& other) noexcept;
  ~Query() { Reset(); }

  // Bind values to the statement's question marks, in order. Texts are not copied: they must live until the query ends
  // or is Reset.
  Query& Text(std::string_view text);
  Query& Blob(std::string_view bytes);
  Query& Int(int64_t value);
  Query& Real(double value);

  Result<bool> Step();  // true: there is a row
  Status Do();          // Step and Reset
  void Reset();

  // Columns of the present row.
  int64_t IntAt(int column) const;
  double RealAt(int column) const;
  std::string TextAt(int column) const;  // of a text or blob

 private:
  Query(Connection& connection, sqlite3_stmt* statement) : connection_(&connection), statement_(statement) {}
  Connection* connection_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
};

}  // namespace autotune
