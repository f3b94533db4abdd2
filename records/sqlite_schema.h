// The tables of a record database (docs/records.md): their formats, and records as rows. Internal to records/.
// Stateless; a Connection belongs to one thread at a time.
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

// Refuses what is there but is no record database of ours, before anything is written to it, and gives its version. A
// database without a table becomes one: its maker may have died before it got further.
Result<int> CheckHeader(Connection& connection);
// To the present format, in one transaction: a process that dies here leaves the version as it was.
Status Migrate(Connection& connection, int version);

}  // namespace autotune
