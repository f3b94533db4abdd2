// The events of a tuning run as JSON objects, for `autotune tune --json`, the C library and the Python package.
#pragma once
#include <variant>

#include "service/events.h"
#include "support/json.h"

namespace autotune {

// Returns the event's fields, and its name as "event".
inline Json EventJson(const event::Any& event) {
  return std::visit(
      [](const auto& e) {
        Json object = ToJson(e);
        object["event"] = e.kName;
        return object;
      },
      event);
}

}  // namespace autotune
