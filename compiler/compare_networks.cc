#include "compiler/compare_networks.h"

#include <algorithm>

#include "compiler/change.h"
#include "compiler/choose_variants.h"

namespace autotune {
namespace {

constexpr int kLoads = 2;            // times that each package is loaded at each number of threads
constexpr int kMinPairsPerLoad = 5;  // ten pairs in two loads; an interval needs six
// Most pairs of one load. More of them hardly narrow the interval. The limit also ends the comparison on a device that
// states durations of 0.
constexpr size_t kMostPairs = 100'000;

// Compares two packages at one number of threads.
class PackageRace {
 public:
  PackageRace(const Network& network, const Package& first, const Package& second, int threads, NetworkHost& host,
              const std::atomic<bool>* stop)
      : network_(network), first_(first), second_(second), threads_(threads), host_(host), stop_(stop) {}

  // Runs the packages in turns for `seconds`. The addresses of an instance's memory influence its times, so the
  // packages are loaded twice, in both orders.
  Status Run(double seconds) {
    for (int load = 0; load < kLoads; ++load) {
      PairedTimes times;  // of this load; those of a lost device stay
      TRY(RunTurn(host_, [&] { return RunLoad(load % 2 == 1, seconds / kLoads, times); }));
      for (const PairTime& pair : times.pairs) ratios_.push_back(pair.Ratio());
      first_times_.push_back(times.FirstSeconds());
      second_times_.push_back(times.SecondSeconds());
    }
    return {};
  }

  bool Undecided() const { return IsUndecided(MedianWithInterval(ratios_)); }

  NetworkComparison Compared() const {
    const MedianInterval ratio = MedianWithInterval(ratios_);
    return {.threads = threads_,
            .default_seconds = Median(first_times_),
            .chosen_seconds = Median(second_times_),
            .ratio = ratio.median,
            .ratio_low = ratio.low,
            .ratio_high = ratio.high,
            .pairs = static_cast<int>(ratios_.size())};
  }

 private:
  Status RunLoad(bool reversed, double seconds, PairedTimes& times) {
    const Module one = TRY(host_.Load(reversed ? second_ : first_, threads_, /*replaceable=*/false));
    const Module other = TRY(host_.Load(reversed ? first_ : second_, threads_, /*replaceable=*/false));
    for (const Module& network : {one, other}) TRY(FillInputs(network_, network));
    const PackedFunc first = TRY((reversed ? other : one)->GetFunction("run"));
    const PackedFunc second = TRY((reversed ? one : other)->GetFunction("run"));
    const auto is_done = [&](double spent) {
      if (times.pairs.size() < kMinPairsPerLoad) return false;
      return times.pairs.size() >= kMostPairs || spent >= seconds || times.Ratio().HalfWidth() <= kResolution;
    };
    for (double spent = times.Seconds(); !is_done(spent); spent = times.Seconds()) {
      if (stop_ && *stop_) return Error("stopped", ErrorKind::kStopped);
      const PairedOptions turn{.half_width = kResolution,
                               .max_seconds = std::clamp(seconds - spent, 0.0, NetworkHost::kTurnSeconds),
                               .min_pairs = 1};
      // The order reverses with each pair, also from one turn to the next.
      const bool swapped = times.pairs.size() % 2 == 1;
      const PairedTimes made = TRY(host_.MeasureInPairs(swapped ? second : first, swapped ? first : second, turn));
      for (PairTime pair : made.pairs) {
        if (swapped) std::swap(pair.first, pair.second);
        constexpr double kMostRatio = 1e6;  // of two schedules of one network
        if (!(pair.Ratio() > 1 / kMostRatio && pair.Ratio() < kMostRatio))
          return Err("the device answered with a time that cannot be");
        times.pairs.push_back(pair);
      }
    }
    return {};
  }

  const Network& network_;
  const Package &first_, &second_;
  const int threads_;
  NetworkHost& host_;
  const std::atomic<bool>* stop_;
  std::vector<double> ratios_, first_times_, second_times_;
};

}  // namespace

Result<std::vector<NetworkComparison>> ComparePackages(const Network& network, const Package& first,
                                                       const Package& second, const std::vector<int>& threads,
                                                       NetworkHost& host, const ComparisonOptions& options) {
  std::vector<PackageRace> races;
  for (int count : threads) races.emplace_back(network, first, second, count, host, options.stop);
  const auto count = static_cast<double>(races.size());
  double done = 0;
  for (PackageRace& race : races) {
    TRY(race.Run(options.seconds / count));
    if (options.on_progress) options.on_progress(++done / count);
  }
  // Go on once where that decides nothing: every further look at the interval would make it likelier that chance
  // decides.
  const auto open = std::count_if(races.begin(), races.end(), [](const PackageRace& race) { return race.Undecided(); });
  std::vector<NetworkComparison> comparisons;
  for (PackageRace& race : races) {
    if (race.Undecided()) TRY(race.Run(options.extra_seconds / static_cast<double>(open)));
    comparisons.push_back(race.Compared());
  }
  return comparisons;
}

}  // namespace autotune
