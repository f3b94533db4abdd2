// The tables of a record database (docs/records.md), their formats, and the conversion between records and rows.
// Stateless; a Connection belongs to one thread at a time. Internal to records/.
#pragma once
#include <string>
#include <string_view>

#include "records/record.h"
#include "records/sqlite.h"

namespace autotune {

// The columns of the view `records`, in the order in which ReadRecord expects them.
inline constexpr char kColumns[] =
    "seq, id, task, target, run, alternative, func, device, tenant, status, verified, cost, seed, ir, step_language, "
    "feature_schema, code_generator, created_at, times, error, trace, facts, "
    "confirmation, disturbed, server";

Result<Record> ReadRecord(const Query& row, const std::string& path);  // errors name `path`
std::string TextHash(std::string_view text);                           // for the column text.hash
std::string UuidToBytes(std::string_view text);                        // for the column record.id

// Returns the version of the database. Refuses a file that is not a record database, before anything is written to it.
// Accepts a database without tables as version 0: the process that created it may have died before it made the tables.
Result<int> CheckHeader(Connection& connection);
// Upgrades the database to the current format in one transaction. If the process dies before its end, the database
// keeps the old version.
Status Migrate(Connection& connection, int version);

}  // namespace autotune
