// A record store that lives as long as the process: for simulated runs and tests. Thread-safe. Keeps nothing on disk.
#pragma once
#include <memory>

#include "records/store.h"

namespace autotune {

std::unique_ptr<RecordStore> NewMemoryStore();

}  // namespace autotune
