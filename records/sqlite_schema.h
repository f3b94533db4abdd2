// The tables of a record database (docs/records.md), their formats, and the conversion between records and rows.
// Stateless; a Connection belongs to one thread at a time. Internal to records/.
#pragma once
#include <string>
#include <string_view>

#include "records/record.h"
#include "records/sqlite.h"

namespace autotune {

// Of the view `records`, in the order in which ReadRecord takes them.
inline constexpr char kColumns[] =
    "seq, id, task, target, run, alternative, func, device, tenant, status, verified, cost, seed, ir, step_language, "
    "feature_schema, code_generator, created_at, times, error, trace, facts, "
    "confirmation";

Result<Record> ReadRecord(const Query& row, const std::string& path);  // `path`: for the error
std::string TextHash(std::string_view text);                           // text.hash
std::string UuidToBytes(std::string_view text);                        // record.id

// Returns the version of the database. Refuses a file that is not one of our record databases, before anything is
// written to it. Makes a database without tables into a record database: the process that created it may have died
// before it made the tables.
Result<int> CheckHeader(Connection& connection);
// Upgrades the database to the present format, in one transaction: if the process dies during it, the old version
// remains.
Status Migrate(Connection& connection, int version);

}  // namespace autotune
