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

namespace {

constexpr int64_t kAtFirst = 1 << 18, kEach = 32;  // bytes of text
std::atomic<int64_t> credit = kAtFirst;            // bytes of text that may still be checked

// Whether the text of the program has at most so many expressions. An expression that several others share is printed
// each time, so the text may be exponentially longer than the program.
bool HasAtMost(int64_t expressions, const PrimFunc& f) {
  int64_t met = 0;
  Walk(
      f.body, [](const Stmt&) { return true; }, [&](const Expr&) { return ++met <= expressions; });
  return met <= expressions;
}

}  // namespace

void CheckSomePrograms(const std::string& where, const PrimFunc& f) {
  constexpr int64_t kBytesPerExpression = 8;
  if (credit.fetch_add(kEach, std::memory_order_relaxed) < 0) return;
  if (!HasAtMost(kAtFirst / kBytesPerExpression, f)) return;
  credit.fetch_sub(static_cast<int64_t>(Check(where, f)), std::memory_order_relaxed);
}

void RenewProgramChecks() { credit.store(kAtFirst, std::memory_order_relaxed); }

}  // namespace autotune
