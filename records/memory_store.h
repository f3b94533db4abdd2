// A record store in memory, for simulated runs and tests. Thread-safe. Writes nothing to disk.
#pragma once
#include <memory>

#include "records/store.h"

namespace autotune {

std::unique_ptr<RecordStore> NewMemoryStore();

}  // namespace autotune
