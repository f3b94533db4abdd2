// Reads the events that real processes of a farm have written (docs/wire.md, AUTOTUNE_FARM_EVENTS) for the ledger.
#pragma once
#include <string>
#include <vector>

#include "support/result.h"
#include "tests/simulator/ledger/ledger.h"

namespace autotune {

// Keeps books from the files of all processes of a farm, each given by its text. A file whose last line is not that of
// an ended process is one of a process that was killed. The clocks of their hosts must agree.
Result<Ledger> LedgerOf(const std::vector<std::string>& files);

// Returns the texts of the files *.jsonl of a folder, in the order of their names.
Result<std::vector<std::string>> ReadFarmLogs(const std::string& folder);

}  // namespace autotune
