#include "tools/autotune/profile.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "support/statistics.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/text.h"
#include "topi/alternatives.h"

namespace autotune::tools {
namespace {

constexpr double kAgreement = 0.05;  // largest difference that counts as agreement, as a share of the latency

// Returns the median, over all runs, of (sum of the kernels' times) / (network's time) - 1.
double PairedDifference(const ProfileSamples& samples) {
  std::vector<double> differences;
  for (size_t run = 0; run < samples.network.size(); ++run) {
    double sum = 0;
    for (const std::vector<double>& kernel : samples.kernels) sum += kernel[run];
    differences.push_back(sum / samples.network[run] - 1);
  }
  return Median(std::move(differences));
}

}  // namespace

bool ProfileBalance::Holds() const { return std::abs(Difference()) <= kAgreement; }

ProfileBalance BalanceOf(const ProfileSamples& samples, double clock_seconds) {
  ProfileBalance balance;
  balance.network = Median(samples.network);
  for (const std::vector<double>& kernel : samples.kernels) balance.kernels += Median(kernel);
  const double difference = balance.Difference();
  if (samples.kernels.empty()) {
    balance.explanation = "the network has no kernels, only reshapes";
    return balance;
  }
  if (balance.Holds()) {
    balance.explanation = Format("they agree within %.1f %%", std::max(0.1, 100 * std::abs(difference)));
    return balance;
  }
  std::string by = Format("they disagree by %.1f %%: ", 100 * std::abs(difference));
  const double clock = clock_seconds * static_cast<double>(samples.kernels.size());
  if (difference > 0 && clock > (difference - kAgreement) * balance.network) {
    balance.explanation = by + Format("%.1f us are the profile's own work: it reads the clock %zu times", clock * 1e6,
                                      samples.kernels.size());
  } else if (std::abs(PairedDifference(samples)) <= kAgreement) {
    balance.explanation =
        by + "the machine was disturbed; they agree within each run, but different kernels were slow in different runs";
  } else {
    balance.explanation = by + "the machine was disturbed more in one of the two measurements; measure again";
  }
  return balance;
}

double ClockSeconds() {
  constexpr int kReadings = 1000;
  const double begin = MonotonicSeconds();
  double end = begin;
  for (int i = 0; i < kReadings; ++i) end = MonotonicSeconds();
  return (end - begin) / kReadings;
}

Result<ProfileSamples> MeasureProfile(const std::function<Status(ProfileSamples&)>& add, double clock_seconds) {
  constexpr int kAttempts = 3;
  ProfileSamples samples;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    samples = {};
    TRY(add(samples));
    if (samples.kernels.empty() || BalanceOf(samples, clock_seconds).Holds()) break;
  }
  return samples;
}

Result<ProfileSamples> MeasureProfile(GraphExecutor& executor, double seconds, Alone& alone) {
  constexpr int kLeastRuns = 5;
  return MeasureProfile(
      [&](ProfileSamples& samples) {
        return RunInTurns(seconds, kLeastRuns, alone, [&] { return executor.AddProfileSamples(1, samples); });
      },
      ClockSeconds());
}

std::vector<ProfileRow> ProfileRows(const PackageInfo& info, const std::vector<NodeTime>& times,
                                    const Roofline& roofline) {
  std::map<std::string, const PackagedKernel*> kernels;
  for (const PackagedKernel& kernel : info.kernels) kernels[kernel.name] = &kernel;
  std::vector<ProfileRow> rows;
  for (const NodeTime& time : times) {
    ProfileRow row{.node = OneLine(time.name),
                   .seconds = time.seconds,
                   .least = time.least,
                   .flops = time.flops,
                   .bytes = time.bytes};
    if (auto found = kernels.find(time.func_name); found != kernels.end()) {
      if (IsTaskIdPrefix(found->second->task)) row.task = ShortTaskId(found->second->task);
      row.label = OneLine(found->second->label);
      row.winograd = topi::IsWinograd(found->second->alternative);
      row.flops = found->second->flops;
      row.small_products = SmallProductsIn(found->second->program);
    }
    row.roof = roofline.Of(row.flops, row.bytes, row.small_products);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string ProfileTable(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, const Roofline& roofline,
                         int threads, int width) {
  // A terminal without room for names of some length gets no speeds; the roofline says more.
  constexpr int kWide = 67, kSpeeds = 19, kNameColumns = 28;  // columns before the names; of them speeds; of names
  const bool speeds = width == 0 || width >= kWide + kNameColumns;
  std::string text = Format("%9s %6s ", "us", "%") + (speeds ? Format("%9s %8s ", "GFLOPS", "GB/s") : "") +
                     Format("%7s  %-10s  %-8s  %s\n", "% roof", "bound by", "task", "kernel");
  bool winograd = false;
  for (const ProfileRow& row : rows) {
    const double rate = row.seconds > 0 ? 1e-9 / row.seconds : 0;
    winograd |= row.winograd;
    const char mark = row.winograd ? 'w' : ' ';
    text += Format("%9.1f %6.1f ", row.seconds * 1e6, 100 * row.seconds / std::max(balance.kernels, 1e-12));
    if (speeds) text += Format("%8.1f%c %8.1f ", row.flops * rate, mark, row.bytes * rate);
    text += roofline.IsKnown() ? Format("%7.1f%c ", 100 * row.RoofShare(), speeds ? ' ' : mark)
                               : Format("%7s%c ", "-", speeds ? ' ' : mark);
    text += Format("%-10s  %-8s  ", roofline.IsKnown() ? row.roof.bound.c_str() : "-",
                   row.task.empty() ? "-" : row.task.c_str());
    const std::string name = row.node + (row.label.empty() ? "" : ": " + row.label);
    text += Row("", name, width == 0 ? 0 : std::max(1, width - (speeds ? kWide : kWide - kSpeeds)));
  }
  std::string sentences =
      Format("%9.1f        all kernels; the network takes %.1f us: ", balance.kernels * 1e6, balance.network * 1e6) +
      balance.explanation + "\n";
  if (!roofline.IsKnown()) {
    if (winograd) sentences += "w: Winograd's algorithm; GFLOPS count the operations of the direct algorithm\n";
    return text + WrapLines(sentences, width);
  }
  sentences += "% roof: share of the speed that the machine allows, on " + CountText(threads, "thread") +
               Format(": %.1f GFLOPS", roofline.flops_per_second / 1e9);
  const auto uses = [&](DType type) {
    return std::ranges::any_of(rows, [&](const ProfileRow& row) { return row.small_products == type; });
  };
  for (const Roofline::DotPeak& of : roofline.dots)
    if (uses(of.factors)) sentences += Format(" (%.1f of ", of.per_second / 1e9) + of.factors.Text() + ")";
  sentences += ", and copying at";
  for (size_t i = 0; i < roofline.copying.size(); ++i) {
    sentences += Format("%s %.0f GB/s in ", i ? "," : "", roofline.copying[i].bytes_per_second / 1e9) +
                 roofline.copying[i].level;
  }
  sentences += " (in the nearest one that holds all that a kernel reads and writes)";
  for (const DType type : {DType::Int(8), DType::BFloat16()}) {
    if (uses(type) && std::ranges::find(roofline.dots, type, &Roofline::DotPeak::factors) == roofline.dots.end())
      sentences += ". Kernels that multiply " + type.Text() + " are compared with copying only";
  }
  sentences += "\n";
  if (winograd) {
    sentences += std::string("w: Winograd's algorithm; ") + (speeds ? "GFLOPS and " : "") +
                 "% roof count the operations of the direct algorithm, so they may exceed what the machine allows\n";
  }
  return text + WrapLines(sentences, width);
}

Json ProfileJson(const std::vector<ProfileRow>& rows, const ProfileBalance& balance, const Roofline& roofline) {
  Json::Array kernels;
  for (const ProfileRow& row : rows) {
    Json& kernel = kernels.emplace_back();
    kernel["name"] = row.node;
    kernel["task"] = row.task;
    kernel["label"] = row.label;
    kernel["winograd"] = row.winograd;
    kernel["median_us"] = row.seconds * 1e6;
    kernel["min_us"] = row.least * 1e6;
    kernel["flops"] = row.flops;
    kernel["bytes"] = row.bytes;
    if (!roofline.IsKnown()) continue;
    kernel["roof_us"] = row.roof.seconds * 1e6;
    kernel["bound"] = row.roof.bound;
  }
  Json line;
  line["kernels"] = std::move(kernels);
  line["kernels_ms"] = balance.kernels * 1e3;
  line["network_ms"] = balance.network * 1e3;
  line["agree"] = balance.Holds();
  line["explanation"] = balance.explanation;
  if (roofline.IsKnown()) line["peak_gflops"] = roofline.flops_per_second / 1e9;
  for (const Roofline::DotPeak& of : roofline.dots) line["dot_peak_gops"][of.factors.Text()] = of.per_second / 1e9;
  for (const CopySpeed& level : roofline.copying) line["copy_gbytes"][level.level] = level.bytes_per_second / 1e9;
  return line;
}

}  // namespace autotune::tools
