#include "tests/schedule/case.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "te/error_bound.h"
#include "te/reference.h"
#include "tests/close.h"
#include "tests/ir/random_program.h"
#include "tests/read.h"

namespace autotune::zoo {
namespace {

constexpr char kHeader[] = "# workload: ";

}  // namespace

std::string ToText(const Case& c) { return kHeader + ToText(c.workload) + "\n" + ToText(c.trace); }

Result<Case> ParseCase(const std::string& text) {
  if (!text.starts_with(kHeader)) return Err("a case begins with '", kHeader, "'");
  size_t end = std::min(text.find('\n'), text.size()), begin = sizeof(kHeader) - 1;
  Case c;
  c.workload = TRY(ParseWorkload(text.substr(begin, end - begin)));
  c.trace = TRY(ParseTrace(text.substr(end)));
  return c;
}

Schedule ApplyLegal(const PrimFunc& func, const Trace& trace, uint64_t seed) {
  Schedule schedule(func);
  Rng rng(seed);
  for (const Step& step : trace) (void)schedule.Apply(step, &rng);
  return schedule;
}

Checker::Checker(const Workload& workload, uint64_t seed)
    : workload_(workload), seed_(seed), func_(MakeProgram(workload)), integers_(test::RandomArgs(func_, seed)) {}

std::string Checker::CheckText(const Schedule& schedule) const {
  const PrimFunc& after = schedule.func();
  auto parsed = ParsePrimFunc(ToText(after));
  if (!parsed.ok()) return "the function does not parse: " + parsed.error().Text();
  if (std::string where = FirstMismatch(after, *parsed); !where.empty()) return "the function's text differs: " + where;
  std::string text = ToText(schedule.trace());
  auto trace = ParseTrace(text);
  if (!trace.ok()) return "the trace does not parse: " + trace.error().Text();
  if (!Equal(*trace, schedule.trace())) return "the trace's text differs";
  auto replayed = Replay(func_, *trace);
  if (!replayed.ok()) return "the trace does not replay: " + replayed.error().Text();
  if (std::string where = FirstMismatch(replayed->func(), after); !where.empty()) return "replayed otherwise: " + where;
  return ToText(replayed->trace()) == text ? "" : "the replayed trace's text differs";
}

std::string Checker::CompareIntegers(const std::vector<InterpArray>& got) {
  if (!from_integers_) {
    from_integers_ = integers_;
    Status ran = Interpret(func_, *from_integers_);
    if (!ran.ok()) return "unscheduled: " + ran.error().Text();
  }
  return test::Difference(func_, got, *from_integers_, {ToleranceOf(workload_), ToleranceOf(workload_)});
}

std::string Checker::CheckIntegers(const PrimFunc& after) {
  Status verified = Verify(after, Dialect::kSchedulable);
  if (!verified.ok()) return "malformed: " + verified.error().Text();
  std::vector<InterpArray> args = integers_;
  Status ran = Interpret(after, args, {.order_seed = seed_ + 1});
  if (!ran.ok()) return ran.error().Text();
  return CompareIntegers(args);
}

const std::vector<InterpArray>& Checker::floats() {
  if (floats_.empty()) floats_ = NormalArgs(func_, seed_);
  return floats_;
}

std::string Checker::CompareFloats(const std::vector<InterpArray>& got) {
  if (!from_floats_) {
    from_floats_ = {floats(), floats()};
    std::vector<InterpArray>&wide_arrays = from_floats_->wide, &bounds = from_floats_->bounds;
    const std::optional<PrimFunc> bounded = te::ToBoundedReference(func_);
    for (size_t i = wide_arrays.size(); bounded && i < bounded->params.size(); ++i)
      wide_arrays.push_back({bounded->params[i].buffer->dtype, ConstShape(bounded->params[i].buffer), {}});
    Status same = Interpret(func_, from_floats_->same),
           wide = Interpret(bounded ? *bounded : te::ToReference(func_), wide_arrays);
    bounds.assign(wide_arrays.begin() + func_.params.size(), wide_arrays.end());
    wide_arrays.resize(func_.params.size());
    if (!same.ok()) return "unscheduled: " + same.error().Text();
    if (!wide.ok()) return "with fp64 intermediates: " + wide.error().Text();
  }
  std::string difference = test::Difference(func_, got, from_floats_->wide, test::kClose, from_floats_->bounds);
  // Rounding may decide a comparison. The unscheduled program in its own types then decides it the same way.
  if (!difference.empty() && test::Difference(func_, got, from_floats_->same, test::kClose).empty()) return "";
  return difference;
}

std::string Checker::CheckFloats(const PrimFunc& after) {
  std::vector<InterpArray> args = floats();
  Status ran = Interpret(after, args, {.order_seed = seed_ + 2});
  return ran.ok() ? CompareFloats(args) : ran.error().Text();
}

namespace {

class Shrinker {
 public:
  Shrinker(const Case& c, const Judge& judge) : best_(c), judge_(judge) { Try(c); }

  Case Run() {
    for (bool progress = true; progress && left_ > 0;) {
      progress = DropSteps();
      progress |= SimplifySteps();
      progress |= ShrinkProgram();
      if (!progress) progress = DropRenamings() || DropPairs();
    }
    return best_;
  }

 private:
  // Keeps the candidate if it is still wrong. Leaves out steps that are no longer legal.
  bool Try(const Case& candidate) {
    if (left_ == 0) return false;
    --left_;
    Schedule schedule = ApplyLegal(MakeProgram(candidate.workload), candidate.trace);
    if (judge_(candidate.workload, schedule).empty()) return false;
    best_ = {candidate.workload, schedule.trace()};
    return true;
  }

  bool DropSteps() {
    bool progress = false;
    for (size_t size = std::max<size_t>(best_.trace.size() / 2, 1);; size /= 2) {
      for (size_t at = best_.trace.size(); at > 0;) {  // from the end, since later steps depend on earlier ones
        size_t begin = at > size ? at - size : 0;
        Case candidate = best_;
        candidate.trace.erase(candidate.trace.begin() + begin,
                              candidate.trace.begin() + std::min(at, best_.trace.size()));
        progress |= Try(candidate);
        at = std::min(begin, best_.trace.size());
      }
      if (size <= 1) return progress;
    }
  }

  // Tries to drop a split or a fusion. Later steps then use a loop that existed before the dropped step.
  bool DropRenamings() {
    for (size_t i = 0; i < best_.trace.size(); ++i) {
      std::vector<std::pair<Name, Name>> renamings;
      if (const Split* split = std::get_if<Split>(&best_.trace[i])) {
        for (const Name& part : split->results.names) renamings.emplace_back(part, split->loop);
      } else if (const Fuse* fuse = std::get_if<Fuse>(&best_.trace[i])) {
        for (const Name& loop : fuse->loops) renamings.emplace_back(fuse->results.names[0], loop);
      }
      for (const auto& [from, to] : renamings) {
        Trace rest = best_.trace;
        rest.erase(rest.begin() + i);
        Result<Trace> renamed = ParseTrace(WithWord(autotune::ToText(rest), from.str(), to.str()));
        if (renamed.ok() && Try({best_.workload, *renamed})) return true;
      }
    }
    return false;
  }
  static std::string WithWord(std::string text, const std::string& from, const std::string& to) {
    auto in_word = [&](size_t at) { return at < text.size() && (std::isalnum(text[at]) || text[at] == '_'); };
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      bool whole = !in_word(at + from.size()) && (at == 0 || !in_word(at - 1));
      if (whole) text.replace(at, from.size(), to);
      at += whole ? to.size() : from.size();
    }
    return text;
  }

  // Tries to drop two steps that only make sense together, such as a split and the fusion of its results.
  bool DropPairs() {
    for (size_t second = best_.trace.size(); second-- > 1;) {
      for (size_t first = second; first-- > 0;) {
        Case candidate = best_;
        candidate.trace.erase(candidate.trace.begin() + second);
        candidate.trace.erase(candidate.trace.begin() + first);
        if (Try(candidate)) return true;
      }
    }
    return false;
  }

  bool TryStep(size_t i, const Step& step) {
    Case candidate = best_;
    candidate.trace[i] = step;
    size_t length = best_.trace.size();
    return Try(candidate) && best_.trace.size() == length;
  }

  // Replaces sampled factors by numbers, and numbers by smaller numbers.
  bool SimplifySteps() {
    bool progress = false;
    for (size_t i = 0; i < best_.trace.size(); ++i) {
      const Split* split = std::get_if<Split>(&best_.trace[i]);
      if (!split) continue;
      Split changed = *split;
      if (!changed.factors.sampled.empty()) {
        for (const Step& step : best_.trace) {
          const SampleTile* tile = std::get_if<SampleTile>(&step);
          if (!tile || tile->results.names[0] != changed.factors.sampled) continue;
          changed.factors = Factors{Factors::kAuto};
          for (size_t k = 1; k < tile->decision.values.size(); ++k)
            changed.factors.list.push_back(tile->decision.values[k]);
        }
        progress |= TryStep(i, changed);
      }
      for (size_t k = 0; i < best_.trace.size() && k < changed.factors.list.size(); ++k) {
        for (int64_t value : {1, 2, 3}) {
          const IntArg& old = changed.factors.list[k];
          if (!old.sampled.empty() || old.value <= value) continue;
          Split smaller = changed;
          smaller.factors.list[k] = value;
          if (TryStep(i, smaller)) {
            changed = smaller;
            progress = true;
            break;
          }
        }
      }
    }
    return progress;
  }

  bool ShrinkProgram() {
    bool any = false;
    for (bool progress = true; progress;) {
      progress = false;
      for (const Workload& smaller : SmallerThan(best_.workload)) {
        Case candidate{smaller, best_.trace};
        for (Step& step : candidate.trace) {
          if (std::holds_alternative<SampleTile>(step)) *DecisionOf(step) = {};  // its extent has changed
        }
        if (Try(candidate)) {
          any = progress = true;
          break;
        }
      }
    }
    return any;
  }

  Case best_;
  const Judge& judge_;
  int left_ = 3000;  // number of candidates that may still be tried
};

}  // namespace

Case Shrink(const Case& c, const Judge& judge) { return Shrinker(c, judge).Run(); }

std::string ReportOf(const Case& c, const std::string& wrong, const Judge& judge) {
  Case least = Shrink(c, judge);
  Schedule shrunk = ApplyLegal(MakeProgram(least.workload), least.trace);
  return "wrong: " + judge(least.workload, shrunk) + "\n" + ToText(least) + "\n" + autotune::ToText(shrunk.func()) +
         "\nshrunk from (" + wrong + ")\n" + ToText(c);
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text ? strtoull(text, nullptr, 10) : otherwise;
}

std::optional<Case> CaseFromEnvironment() {
  const char* path = getenv("AUTOTUNE_SCHEDULE_CASE");
  if (!path) return std::nullopt;
  Result<Case> c = ParseCase(test::ReadAll(path));
  EXPECT_TRUE(c.ok()) << path << ": " << c.error().Text();
  return c.ok() ? std::optional(*c) : std::nullopt;
}

}  // namespace autotune::zoo
