// Differences of JSON values, as a live page gets them. Pure functions, thread-safe.
#pragma once
#include "support/json.h"

namespace autotune::http {

// Returns the merge patch (RFC 7396) that turns the object `before` into `after`: members that are new or differ, and
// null for those that are gone. Objects are compared member by member, other values as a whole. Null members count as
// absent. An empty object: nothing differs.
Json MergePatch(const Json& before, const Json& after);

// Returns the value without members that are null.
Json WithoutNulls(Json value);

// Returns about how much memory a value takes, in bytes.
int64_t MemoryOf(const Json& value);

}  // namespace autotune::http
