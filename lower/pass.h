// PassContext: what a caller may say about, and learn from, a pipeline of passes over PrimFuncs. Not thread-safe: one
// per pipeline run.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ir/stmt.h"

namespace autotune {

struct Miscompile;

struct PassContext {
  std::map<std::string, int64_t> options;  // by name; see lower/lower.h
  std::set<std::string> disabled;          // passes to leave out, by name
  std::map<std::string, double> times_ms;  // filled: milliseconds by pass, summed over functions
  // Called after each pass with its name and what it made: dump, verify, interpret.
  std::function<void(std::string_view pass, const PrimFunc&)> after;
  Miscompile* miscompile = nullptr;  // a mistake to make on purpose, for tests (lower/miscompile.h)

  int64_t Option(const std::string& name, int64_t fallback) const {
    auto it = options.find(name);
    return it == options.end() ? fallback : it->second;
  }
};

}  // namespace autotune
