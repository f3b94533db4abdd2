#include "tools/autotune/step_line.h"

#include "tools/autotune/console.h"
#include "tools/autotune/text.h"

namespace autotune::tools {

StepLine::~StepLine() { Console::Get().Live(""); }

void StepLine::Tell(const std::string& step, int64_t done, int64_t total) {
  constexpr double kBetweenLines = 10, kBetweenDraws = 0.2;  // seconds
  Console& console = Console::Get();
  if (total == 0) {
    console.Live("");
    return console.Status(step);
  }
  if (step != step_ || done <= 1) step_ = step, begin_ = Clock::now(), told_ = 0;
  const double now = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (done == total) return console.Live("");
  if (done == 0 || now - told_ < (console.HasLive() ? kBetweenDraws : kBetweenLines)) return;
  told_ = now;
  const double left = now / static_cast<double>(done) * static_cast<double>(total - done);
  const std::string line =
      step + ": " + std::to_string(done) + " of " + std::to_string(total) + ", " + DurationText(left) + " left";
  if (console.HasLive()) return console.Live(line);
  console.Status(line);
}

}  // namespace autotune::tools
