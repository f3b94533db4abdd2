#include "compiler/choose.h"

#include <algorithm>
#include <set>

#include "compiler/choose_variants.h"
#include "compiler/compare_networks.h"
#include "compiler/kernels.h"
#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// Kernels per task besides the default one. Every block runs each of them, so more kernels mean fewer blocks.
constexpr int kCompetitors = 2;
constexpr double kBlocksShare = 0.4;      // share of the time for the blocks; the rest is for builds and comparisons
constexpr double kLeastComparison = 0.5;  // least share of that rest for one comparison, however long builds took

bool Stopped(const ChooseOptions& options) { return options.stop && *options.stop; }

void SetSchedules(NetworkChoice& choice, const Network& network, const KernelVariants& variants,
                  const Variants& chosen) {
  choice.schedules.clear();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const KernelChoice& kernel = variants.choices[i][chosen[i]];
    const PrimFunc program = ProgramOf(network, *kernel.task, kernel.alternative);
    choice.schedules.push_back({.task = kernel.task->hash.Hex(),
                                .alternative = kernel.alternative,
                                .func_hash = HashBytes128(ToText(program)).Hex(),
                                .trace = kernel.trace,
                                .seconds = kernel.tuned ? kernel.seconds : 0});
  }
}

std::vector<MedianInterval> RatiosOf(const std::vector<NetworkComparison>& comparisons) {
  std::vector<MedianInterval> ratios;
  for (const NetworkComparison& c : comparisons) ratios.push_back({c.ratio_low, c.ratio, c.ratio_high});
  return ratios;
}

std::vector<MedianInterval> Inverse(std::vector<MedianInterval> ratios) {
  for (MedianInterval& ratio : ratios) ratio = {1 / ratio.high, 1 / ratio.median, 1 / ratio.low};
  return ratios;
}

// Returns the variant of each task that `choice` runs. Returns nothing if a schedule of `choice` is not a variant.
std::optional<Variants> VariantsOf(const NetworkChoice& choice, const KernelVariants& variants) {
  Variants found;
  for (const std::vector<KernelChoice>& kernels : variants.choices) {
    const ChosenSchedule* schedule = choice.Find(kernels[0].task->hash.Hex());
    if (!schedule) return std::nullopt;
    auto place = std::find_if(kernels.begin(), kernels.end(), [&](const KernelChoice& kernel) {
      return kernel.alternative == schedule->alternative && kernel.trace == schedule->trace;
    });
    if (place == kernels.end()) return std::nullopt;
    found.push_back(static_cast<int>(place - kernels.begin()));
  }
  return found;
}

// Returns a hash of the schedules of all tasks. It does not depend on the order of a task's schedules, since
// BuildVariants puts those of an earlier choice before those of records.
std::string HashOf(const KernelVariants& variants) {
  std::string text;
  for (const std::vector<KernelChoice>& kernels : variants.choices) {
    std::set<std::string> schedules;
    for (const KernelChoice& kernel : kernels) schedules.insert(kernel.alternative + '\n' + kernel.trace + '\n');
    text += kernels[0].task->hash.Hex() + '\n';
    for (const std::string& schedule : schedules) text += schedule;
  }
  return HashBytes128(text).Hex();
}

class Chooser {
 public:
  Chooser(const Network& network, const Target& target, RecordStore& store, Builder& builder, NetworkHost& host,
          const ChooseOptions& options)
      : network_(network), target_(target), store_(store), compiler_(builder), host_(host), options_(options) {}

  Result<ChosenNetwork> Choose() {
    ChosenNetwork result;
    NetworkChoice& choice = result.choice;
    choice.model = network_.name;
    choice.network = StructureHash(network_);
    choice.target = target_.Text();
    choice.versions = CurrentVersions();
    choice.created_at = WallMillis();
    std::optional<NetworkChoice> previous = TRY(FindChoice(store_, choice.network, choice.target));
    if (previous && !IsCurrent(*previous)) previous.reset();
    const ScheduleSources sources{.store = &store_, .choice = previous ? &*previous : nullptr};
    variants_ = TRY(BuildVariants(network_, target_, sources, kCompetitors, compiler_));
    for (const auto& kernels : variants_.choices) result.tasks_with_records += kernels.size() > 1;
    choice.compared = HashOf(variants_);
    const Variants untuned(network_.tasks.size(), 0);
    Variants chosen = untuned;
    std::optional<Variants> before;
    if (previous) before = VariantsOf(*previous, variants_);
    if (before && previous->compared == choice.compared && previous->measured_on.device == host_.measured_on().device) {
      result.same_schedules = true;
      choice = *previous;
      choice.model = network_.name;  // older versions did not store it
      chosen = *before;
    } else {
      if (before == untuned) before.reset();
      if (result.tasks_with_records > 0) chosen = TRY(Select());
      auto compare = [&](const Variants& first, const Variants& second) { return Compare(first, second); };
      NetworkDecision decision = TRY(DecideVariants(untuned, before, chosen, compare));
      chosen = std::move(decision.chosen);
      choice.comparisons = std::move(decision.comparisons);
      choice.measured_on = host_.measured_on();
      result.refusal = std::move(decision.refusal);
      SetSchedules(choice, network_, variants_, chosen);
    }
    result.kept_defaults = chosen == untuned;
    result.kept_previous = before && !result.kept_defaults && chosen == *before;
    result.compiled = TRY(CompileCombination(chosen));
    for (const ChosenSchedule& schedule : choice.schedules) result.tuned_tasks += schedule.seconds > 0;
    result.undisturbed = host_.undisturbed();
    result.seconds = SteadySeconds() - begin_;
    return result;
  }

 private:
  Result<Variants> Select() {
    const VariantOptions options{.seconds = kBlocksShare * options_.max_seconds,
                                 .seed = options_.seed,
                                 .on_progress = [this](double done) { ShowProgress(kBlocksShare * done); },
                                 .stop = options_.stop};
    return SelectVariants(network_, target_, variants_, host_, options);
  }

  void ShowProgress(double done) const {
    if (options_.on_progress) options_.on_progress(done);
  }

  Result<CompileResult> CompileCombination(const Variants& combination) {
    if (Stopped(options_)) return Err("stopped");
    NetworkChoice choice;
    SetSchedules(choice, network_, variants_, combination);
    CompileResult result = TRY(CompileFrom(network_, target_, {.choice = &choice}, compiler_));
    for (size_t i = 0; i < combination.size(); ++i) {
      if (result.choices[i].trace != choice.schedules[i].trace)
        return Err("the selected schedule of ", network_.tasks[i].label, " does not build any more");
    }
    return result;
  }

  Result<std::vector<NetworkComparison>> Compare(const Variants& first, const Variants& second) {
    Package one = TRY(CompileCombination(first)).package, other = TRY(CompileCombination(second)).package;
    const double least = kLeastComparison * (1 - kBlocksShare) * options_.max_seconds;
    const ComparisonOptions options{
        .seconds = std::max(least, options_.max_seconds - (SteadySeconds() - begin_)),
        .extra_seconds = options_.max_extra_seconds,
        .on_progress = [this](double done) { ShowProgress(kBlocksShare + (1 - kBlocksShare) * done); },
        .stop = options_.stop};
    return ComparePackages(network_, one, other, ComparedThreads(target_), host_, options);
  }

  const double begin_ = SteadySeconds();
  const Network& network_;
  const Target& target_;
  RecordStore& store_;
  KernelCompiler compiler_;
  NetworkHost& host_;
  const ChooseOptions& options_;
  KernelVariants variants_;
};

}  // namespace

Result<NetworkDecision> DecideVariants(const Variants& untuned, const std::optional<Variants>& before,
                                       const Variants& selected, const VariantComparer& compare) {
  NetworkDecision decision{.chosen = before && selected == untuned ? *before : selected};
  // The selected schedules must beat the previous choice first, then the default schedules.
  if (before && decision.chosen != *before) {
    const std::vector<NetworkComparison> comparisons = TRY(compare(*before, selected));
    const ChangeVerdict verdict = JudgeChange(RatiosOf(comparisons));
    if (verdict.kind != ChangeKind::kGain) {
      decision.refusal = RefusedChange{.kind = verdict.kind, .at = comparisons[verdict.at]};
      decision.chosen = *before;
    }
  }
  while (decision.chosen != untuned) {
    decision.comparisons = TRY(compare(untuned, decision.chosen));
    const std::vector<MedianInterval> ratios = RatiosOf(decision.comparisons);
    // The earlier choice of the store stays, unless the default schedules are faster than it by the same rule.
    const bool previous = decision.chosen == before;
    const ChangeVerdict verdict = JudgeChange(previous ? Inverse(ratios) : ratios);
    if ((verdict.kind == ChangeKind::kGain) != previous) return decision;
    decision.refusal = RefusedChange{.kind = previous ? ChangeKind::kLoss : verdict.kind,
                                     .of_previous = previous,
                                     .against_default = true,
                                     .at = decision.comparisons[verdict.at]};
    // Selected schedules that lose to the defaults say nothing of the store's choice, which once beat the defaults.
    decision.chosen = before && !previous ? *before : untuned;
  }
  return decision;
}

Result<ChosenNetwork> ChooseSchedules(const Network& network, const Target& target, RecordStore& store,
                                      Builder& builder, NetworkHost& host, const ChooseOptions& options) {
  Result<ChosenNetwork> chosen = Chooser(network, target, store, builder, host, options).Choose();
  const bool stopped = !chosen.ok() && chosen.error().kind == ErrorKind::kStopped;
  if (stopped || Stopped(options)) return ChosenNetwork{.stopped = true};
  return chosen;
}

}  // namespace autotune
