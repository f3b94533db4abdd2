#include "ir/watch.h"

#include <cstdlib>
#include <string_view>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune {

namespace {

#ifdef AUTOTUNE_VERIFY
constexpr bool kAll = true;
#else
constexpr bool kAll = false;
#endif

}  // namespace

ProgramWatcher WatcherFor(const char* value) {
  if (kAll || (value && std::string_view(value) == "all")) return CheckProgram;
  return value ? CheckSomePrograms : nullptr;
}

std::atomic<ProgramWatcher> program_watcher = WatcherFor(std::getenv("AUTOTUNE_VERIFY"));

namespace {

// Checks the program (see CheckProgram) and returns the size of its text in bytes.
size_t Check(const std::string& where, const PrimFunc& f) {
  Status verified = Verify(f);
  CHECK(verified.ok()) << where << ": " << verified.error().Text() << "\n" << ToText(f);
  std::string text = ToText(f);
  Result<PrimFunc> parsed = ParsePrimFunc(text);
  CHECK(parsed.ok()) << where << ": the printed program does not parse: " << parsed.error().Text() << "\n" << text;
  CHECK(Equal(*parsed, f)) << where << ": the printed program parses to another one: " << FirstMismatch(*parsed, f)
                           << "\n"
                           << text;
  return text.size();
}

}  // namespace

void CheckProgram(const std::string& where, const PrimFunc& f) { Check(where, f); }

void CheckSomePrograms(const std::string& where, const PrimFunc& f) {
  constexpr int64_t kAtFirst = 1 << 18, kEach = 32;  // bytes of text
  static std::atomic<int64_t> credit = kAtFirst;
  if (credit.fetch_add(kEach, std::memory_order_relaxed) < 0) return;
  credit.fetch_sub(static_cast<int64_t>(Check(where, f)), std::memory_order_relaxed);
}

}  // namespace autotune
