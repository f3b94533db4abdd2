#include "tools/autotune/report/collect.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "compiler/explain.h"
#include "ir/added_product.h"
#include "ir/arithmetic.h"
#include "ir/text.h"
#include "support/clock.h"
#include "support/statistics.h"
#include "support/utf8.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/report/history.h"
#include "tools/autotune/version.h"

namespace autotune::tools::report {
namespace {

constexpr double kMicro = 1e6;  // in one second

Reason ReasonOf(const Finding& finding) {
  return {std::string(ToText(finding.cause)), finding.gain, OneLine(finding.sentence)};
}

void AddReasons(const Explanation& explanation, Kernel& kernel) {
  kernel.why = ReasonOf(explanation.main);
  for (const Finding& other : explanation.others) kernel.also.push_back(ReasonOf(other));
  kernel.winograd = explanation.winograd;
}

Ceilings CeilingsOf(const Roofline& roofline) {
  Ceilings ceilings{.peaks = {{"f32", roofline.flops_per_second / 1e9}}};
  for (const Roofline::DotPeak& of : roofline.dots) ceilings.peaks.push_back({of.factors.Text(), of.per_second / 1e9});
  for (const CopySpeed& level : roofline.copying) {
    ceilings.levels.push_back({level.level, level.bytes_per_second / 1e9});
    if (std::isfinite(level.capacity)) ceilings.levels.back().capacity_bytes = level.capacity;
  }
  return ceilings;
}

// Returns the estimate of a median over runs. The runs of one load share its addresses, so of several loads each counts
// as one sample.
Estimate TimeOf(const std::vector<double>& runs, const std::vector<size_t>& loads) {
  return EstimateOf(loads.size() > 1 ? LoadMedians(runs, loads) : runs);
}

Kernel KernelOf(const ExplainedKernel& measured, const std::vector<size_t>& loads) {
  const PackagedKernel& packaged = measured.kernel;
  Kernel kernel{.task = OneLine(packaged.task),
                .kernel = OneLine(packaged.name),
                .label = OneLine(packaged.label),
                .alternative = OneLine(packaged.alternative),
                .tuned = packaged.tuned,
                .calls = static_cast<int64_t>(measured.nodes.size()),
                .flops = packaged.flops,
                .bytes = measured.bytes,
                .small_products = SmallProductsIn(packaged.program),
                .trace = packaged.trace};
  for (const std::string& node : measured.nodes) kernel.nodes.push_back(OneLine(node));
  if (!measured.runs.empty()) {
    kernel.time = TimeOf(measured.runs, loads);
    kernel.slowest_call_us = measured.seconds * kMicro;
  }
  return kernel;
}

// The sum over all kernels of the time of all of their calls; kernels without a time are left out.
double SumOf(const Report& report) {
  double sum = 0;
  for (const Kernel& kernel : report.kernels) sum += kernel.time ? kernel.time->median_us : 0;
  return sum;
}

// Returns the time of a record's candidate. Its cost ranks it, and is the least of its repeats or their median; an
// interval that does not contain it says nothing about it.
Estimate TimeOf(const Record& record) {
  Estimate time{.median_us = record.cost * kMicro, .samples = static_cast<int64_t>(record.times.size())};
  if (record.times.empty()) return time;
  const Estimate repeats = EstimateOf(record.times);
  if (repeats.low_us && *repeats.low_us <= time.median_us && time.median_us <= *repeats.high_us)
    time.low_us = repeats.low_us, time.high_us = repeats.high_us;
  return time;
}

Kernel KernelOf(const Record& best, const Target& target) {
  Kernel kernel{.task = best.task,
                .label = OneLine(LabelOf(best)),
                .alternative = OneLine(best.alternative),
                .tuned = true,
                .time = TimeOf(best),
                .trace = best.trace};
  // A record of another version may not parse or replay; its numbers hold all the same.
  if (const Result<PrimFunc> program = ParsePrimFunc(best.func); program.ok()) {
    kernel.flops = ArithmeticOf(program->body).Flops();
    kernel.small_products = SmallProductsOf(program->body);
    kernel.bytes = static_cast<double>(BytesOfParams(*program));
  }
  if (target.IsGpu()) return kernel;
  const PackagedKernel packaged{
      .name = "kernel", .alternative = best.alternative, .program = best.func, .trace = best.trace};
  if (const Result<Evidence> evidence = EvidenceOf(packaged, target, target.num_cores); evidence.ok())
    AddReasons(Explain(*evidence), kernel);
  return kernel;
}

// Says so if kernels are faster than copying by so much that the ceilings must be wrong. Reading alone is up to twice
// as fast as copying.
void NoteDisturbedCeilings(Report& report) {
  constexpr double kImpossible = 2;
  const auto count = std::ranges::count_if(report.kernels, [&](const Kernel& kernel) {
    return kernel.roof_share && *kernel.roof_share > kImpossible && kernel.bound != "arithmetic";
  });
  if (count == 0) return;
  report.notes.push_back(std::to_string(count) + (count == 1 ? " kernel moves" : " kernels move") +
                         " more than twice the bytes per second of the measured ceilings: other processes disturbed "
                         "the measurement of these, so all shares of the roof are too high; measure again");
}

}  // namespace

Estimate EstimateOf(std::vector<double> seconds) {
  const auto samples = static_cast<int64_t>(seconds.size());
  const MedianInterval interval = MedianWithInterval(std::move(seconds));
  Estimate estimate{.median_us = interval.median * kMicro, .samples = samples};
  if (std::isfinite(interval.low)) {
    estimate.low_us = interval.low * kMicro;
    estimate.high_us = interval.high * kMicro;
  }
  return estimate;
}

std::vector<double> LoadMedians(const std::vector<double>& runs, const std::vector<size_t>& loads) {
  std::vector<double> medians;
  for (size_t load = 0; load < loads.size(); ++load) {
    const size_t end = std::min(runs.size(), load + 1 < loads.size() ? loads[load + 1] : runs.size());
    if (loads[load] < end)
      medians.push_back(Median({runs.begin() + static_cast<long>(loads[load]), runs.begin() + static_cast<long>(end)}));
  }
  return medians;
}

void Sign(Report& report) {
  std::istringstream lines(VersionText());
  for (std::string line; std::getline(lines, line);) report.versions.push_back(line);
  report.machine = HostText();
  report.created_at = WallMillis();
}

void AddShares(Report& report, const std::optional<Roofline>& roofline) {
  if (roofline && roofline->IsKnown()) report.ceilings = CeilingsOf(*roofline);
  const double sum = SumOf(report);
  if (sum > 0) report.kernels_us = sum;
  for (Kernel& kernel : report.kernels) {
    if (!kernel.time || kernel.time->median_us <= 0) continue;
    const double us = kernel.time->median_us;
    const auto calls = static_cast<double>(std::max<int64_t>(1, kernel.calls));
    kernel.share = us / sum;
    kernel.gflops = calls * kernel.flops / us / 1e3;
    kernel.gbytes_per_second = calls * kernel.bytes / us / 1e3;
    if (!report.ceilings) continue;
    const Roof roof = roofline->Of(kernel.flops, kernel.bytes, kernel.small_products);
    kernel.roof_us = calls * roof.seconds * kMicro;
    kernel.roof_share = *kernel.roof_us / us;
    kernel.bound = roof.bound;
  }
  NoteDisturbedCeilings(report);
  std::ranges::stable_sort(report.kernels, std::greater<>(),
                           [](const Kernel& k) { return k.time ? k.time->median_us : 0; });
}

Result<Report> ReportOfNetwork(const ExplainSource& source) {
  Report report;
  Sign(report);
  report.name = OneLine(source.name);
  report.target = MachineText(source.target);
  report.target_text = source.target.Text();
  report.not_measured = source.not_measured;
  if (source.not_measured.empty()) {
    report.threads = source.target.IsGpu() ? 0 : source.threads;
    if (!source.runs.empty()) report.time = TimeOf(source.runs, source.loads);
    report.agree = source.balance.Holds();
    report.agreement = source.balance.explanation;
  }
  for (const ExplainedKernel& measured : source.kernels) {
    Kernel& kernel = report.kernels.emplace_back(KernelOf(measured, source.loads));
    if (source.target.IsGpu()) continue;
    const Result<Explained> explained = ExplainKernel(source, measured);
    explained.ok() ? AddReasons(explained->explanation, kernel)
                   : report.notes.push_back(kernel.kernel + " is not explained: " + OneLine(explained.error().Text()));
  }
  AddShares(report, source.roofline);
  return report;
}

Result<Report> ReportOfDatabase(RecordStore& store, const Target& target, const std::optional<Roofline>& roofline) {
  Report report{.kind = "database"};
  Sign(report);
  report.target = MachineText(target);
  report.target_text = target.Text();
  for (const TaskSummary& task : TRY(store.Tasks())) {
    if (task.target != report.target_text) continue;
    const std::optional<Record> best = TRY(store.Best(task.task, task.target));
    report.kernels.push_back(best ? KernelOf(*best, target) : Kernel{.task = task.task});
  }
  if (report.kernels.empty()) return Err("the database has no record for ", report.target);
  AddShares(report, roofline);
  TRY(AddHistories(store, report.target_text, report));
  TRY(AddChoices(store, report.target_text, report));
  return report;
}

}  // namespace autotune::tools::report
