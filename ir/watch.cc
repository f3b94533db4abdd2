#include "ir/watch.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune {

#ifdef AUTOTUNE_VERIFY
std::atomic<ProgramWatcher> program_watcher = CheckProgram;
#else
std::atomic<ProgramWatcher> program_watcher = nullptr;
#endif

void CheckProgram(const std::string& where, const PrimFunc& f) {
  Status verified = Verify(f);
  CHECK(verified.ok()) << where << ": " << verified.error().Text() << "\n" << ToText(f);
  std::string text = ToText(f);
  Result<PrimFunc> parsed = ParsePrimFunc(text);
  CHECK(parsed.ok()) << where << ": what prints does not parse: " << parsed.error().Text() << "\n" << text;
  CHECK(Equal(*parsed, f)) << where << ": what prints parses to another program: " << FirstMismatch(*parsed, f) << "\n"
                           << text;
}

}  // namespace autotune
