#include "compiler/explain.h"

#include <algorithm>
#include <cmath>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/replay.h"
#include "schedule/trace.h"
#include "support/printf_text.h"
#include "target/machine.h"
#include "topi/alternatives.h"
#include "topi/winograd.h"

namespace autotune {
namespace {

constexpr double kWorthNaming = 1.2;  // least gain of a cause; the estimates are not exact enough for smaller ones
constexpr double kAtTheRoof = 0.75;   // share of the roofline's speed from which on a kernel has no fault [chosen]
// Least gain of a fault that counts although the kernel reaches a speed that it may exceed: that of copying within a
// cache, since it may write less than it reads, or that of another algorithm.
constexpr double kBeyondDoubt = 2;
// Shares of the instructions of the hot code [chosen].
constexpr double kFewLaneMoves = 0.05;  // up to this, vectors are loaded as wholes, whatever the schedule says
constexpr double kManyIntegers = 0.6;   // from this on, addresses dominate

std::string BytesText(double bytes) {
  if (bytes >= 1e9) return Format("%.1f GB", bytes / 1e9);
  if (bytes >= 1e6) return Format("%.1f MB", bytes / 1e6);
  return Format("%.1f KB", bytes / 1e3);
}

// Returns an estimate of the work of one run of a region. Loops that move data do little arithmetic, and the arithmetic
// beside them counts more than their moves.
double WorkOfRegion(const CodeRegion& region) {
  constexpr double kMove = 1.0 / 64;
  double work = 0;
  for (const Instruction& i : region.instructions) {
    const bool arithmetic = i.operation == Operation::kVectorArithmetic ||
                            i.operation == Operation::kScalarArithmetic || i.operation == Operation::kLane;
    work += arithmetic ? 1 : (i.loads || i.stores) && !i.stack ? kMove : 0;
  }
  return work;
}

// Returns the block that computes the direct sums of a Winograd convolution, for tiles with extreme numbers; an empty
// name if there is none.
std::string SelectedSums(const PrimFunc& program) {
  std::string name;
  Walk(program.body, [&](const Stmt& s) {
    const Block* block = s.As<Block>();
    if (!block) return true;
    const auto stage = block->annotations.find(topi::kWinograd);
    if (stage != block->annotations.end() && stage->second == static_cast<int64_t>(topi::WinogradStage::kDirect))
      name = block->name.str();
    return true;
  });
  return name;
}

class Explainer {
 public:
  explicit Explainer(const Evidence& evidence) : e_(evidence) {}

  Explanation Explain() {
    base_ = Seconds(Fault::kNone);
    AddScalar();
    AddStrided();
    AddSpilled();
    AddTraffic();
    AddFewTasks();
    AddPadding();
    AddIndices();
    std::ranges::stable_sort(found_, [](const Finding& a, const Finding& b) { return a.gain > b.gain; });
    Explanation result;
    result.winograd = WinogradText();
    if (AtTheRoof() || found_.empty()) {
      result.main = LimitOf();
    } else {
      result.main = found_[0];
      found_.erase(found_.begin());
    }
    result.others = std::move(found_);
    return result;
  }

 private:
  double Seconds(Fault without) const { return EstimateSeconds(e_.schedule, e_.target, e_.threads, without); }

  // Returns the block that would gain most without the fault.
  const BlockFacts& WorstBlock(Fault fault) const {
    const BlockFacts* worst = &e_.schedule.blocks[0];
    double most = -1;
    for (const BlockFacts& block : e_.schedule.blocks) {
      const double saved = EstimateBlock(block, e_.target, e_.threads).seconds -
                           EstimateBlock(block, e_.target, e_.threads, fault).seconds;
      if (saved > most) most = saved, worst = &block;
    }
    return *worst;
  }

  double GainWithout(Fault fault) const { return base_ > 0 ? base_ / std::max(Seconds(fault), 1e-30) : 1; }

  void Add(Cause cause, double gain, const std::string& text) {
    if (gain < kWorthNaming) return;
    const std::string name(cause == Cause::kMemory ? "" : std::string(ToText(cause)) + ": ");
    found_.push_back({cause, gain, name + text});
  }

  bool AtTheRoof() const {
    if (!e_.time || e_.time->seconds <= 0 || e_.time->roof_seconds < kAtTheRoof * e_.time->seconds) return false;
    // The roof of caches is the speed of copies. That of Winograd's algorithm is the direct algorithm's, which has more
    // operations. Such kernels may be beyond it and still have a fault.
    const bool sure = e_.time->roof_bound == "memory" || (e_.time->roof_bound == "arithmetic" && !UsesWinograd());
    return sure || found_.empty() || found_[0].gain < kBeyondDoubt;
  }

  void AddScalar() {
    const double gain = GainWithout(Fault::kScalar);
    const bool vectors = e_.code && e_.code->vector > e_.code->scalar + e_.code->lane;
    if (gain >= kWorthNaming && !vectors) {
      const BlockFacts& block = WorstBlock(Fault::kScalar);
      std::string text;
      if (block.vector_loop.empty()) {
        text = "block " + block.name + " computes one element at a time where a vector holds " +
               Format("%.0f", block.full_lanes) + ", because none of its loops is vectorized";
        if (!block.inner.empty()) text += " (the innermost is " + block.inner + ")";
      } else {
        text = Format("the vectors of block %s have %.0f of %.0f lanes (loop %s)", block.name.c_str(), block.lanes,
                      block.full_lanes, block.vector_loop.c_str());
      }
      Add(Cause::kScalar, gain, text + CodeShare());
      return;
    }
    if (!e_.code || e_.code->scalar <= e_.code->vector) return;
    // The schedule has vectors, but the code has not.
    double lanes = 1;
    for (const BlockFacts& block : e_.schedule.blocks) lanes = std::max(lanes, block.full_lanes);
    const double saved = e_.code->scalar * (1 - 1 / lanes);
    Add(Cause::kScalar, e_.code->all / std::max(1.0, e_.code->all - saved),
        "the schedule has vectors, but the code computes one element at a time" + CodeShare());
  }

  // Returns the part of a sentence that tells how many arithmetic instructions are scalar.
  std::string CodeShare() const {
    if (!e_.code) return "";
    const double arithmetic = e_.code->scalar + e_.code->vector;
    if (arithmetic <= 0 || e_.code->scalar <= 0) return "";
    return Format("; %.0f %% of the arithmetic instructions of its hot loop are scalar",
                  100 * e_.code->scalar / arithmetic);
  }

  void AddStrided() {
    const double gain = GainWithout(Fault::kStrided);
    if (e_.code && e_.code->lane <= kFewLaneMoves * e_.code->all) return;
    if (gain < kWorthNaming) return;
    const BlockFacts& block = WorstBlock(Fault::kStrided);
    const AccessFacts* worst = nullptr;
    for (const AccessFacts& access : block.accesses) {
      const bool strided = access.contiguity == Contiguity::kStrided;
      if (strided && (!worst || access.elements * access.lane_cost > worst->elements * worst->lane_cost))
        worst = &access;
    }
    if (!worst) return;
    std::string apart = worst->stride != 0 ? Format("%lld elements apart", static_cast<long long>(worst->stride))
                                           : std::string("no neighbours");
    Add(Cause::kStrided, gain,
        "the lanes of loop " + block.vector_loop + " (block " + block.name + ") are " + apart + " in " + worst->buffer +
            ", so each of them is " + (worst->writes ? "stored" : "loaded") + " by itself");
  }

  void AddSpilled() {
    if (!e_.code || e_.code->all <= 0) return;
    const double share = e_.code->stack / e_.code->all;
    Add(Cause::kSpilled, share < 1 ? 1 / (1 - share) : 1,
        Format("%.0f %% of the instructions of its hot loop move values to or from the stack, because its tile needs "
               "more registers than the %d vector registers of the CPU",
               100 * share, e_.target.vector_registers));
  }

  void AddTraffic() {
    const double gain = GainWithout(Fault::kTraffic);
    if (gain < kWorthNaming) return;
    const BlockFacts& block = WorstBlock(Fault::kTraffic);
    const Estimate now = EstimateBlock(block, e_.target, e_.threads);
    if (now.limit == Limit::kArithmetic) return;
    Add(Cause::kMemory, gain, MemoryText(block, now.limit));
  }

  // Says at which level a block waits for data, and which buffer causes most of the traffic.
  std::string MemoryText(const BlockFacts& block, Limit limit) const {
    const size_t level = static_cast<size_t>(limit) - 1;  // Limit::kLoads is the level L1
    double bytes = 0, least = 0;
    const AccessFacts* most = nullptr;
    for (const AccessFacts& access : block.accesses) {
      bytes += access.bytes[level];
      least += access.unique_bytes;
      if (!most || access.bytes[level] > most->bytes[level]) most = &access;
    }
    std::string text = "memory-bound at " + std::string(ToText(static_cast<MemoryLevel>(level))) + ": block " +
                       block.name + " moves " + BytesText(bytes);
    if (least > 0 && bytes >= kWorthNaming * least) {
      text += Format(" for %s of data", BytesText(least).c_str());
      if (most) text += Format(" (%s %.1f times)", most->buffer.c_str(), most->bytes[level] / most->unique_bytes);
    } else {
      text += ", each byte once";
    }
    if (e_.time && e_.time->seconds > 0) text += Format(", at %.1f GB/s", bytes / e_.time->seconds / 1e9);
    return text;
  }

  void AddFewTasks() {
    const double gain = GainWithout(Fault::kFewTasks);
    if (gain < kWorthNaming) return;
    const BlockFacts& block = WorstBlock(Fault::kFewTasks);
    std::string text = block.tasks <= 1 ? "block " + block.name + " runs on one of " + Format("%d", e_.threads) +
                                              " threads, because none of its loops of several iterations is parallel"
                                        : Format("the parallel loop of block %s has %.0f iterations for %d threads",
                                                 block.name.c_str(), block.tasks, e_.threads);
    Add(Cause::kFewTasks, gain, text);
  }

  void AddPadding() {
    const double gain = GainWithout(Fault::kPadding);
    if (gain < kWorthNaming) return;
    const BlockFacts& block = WorstBlock(Fault::kPadding);
    Add(Cause::kPadding, gain,
        Format("%.0f %% of the iterations of block %s compute nothing that is used, because its tiles exceed the loops",
               100 * (1 - block.useful / block.instances), block.name.c_str()));
  }

  void AddIndices() {
    if (!e_.code || e_.code->all <= 0 || !found_.empty()) return;
    const double share = e_.code->integer / e_.code->all;
    if (share < kManyIntegers) return;
    Add(Cause::kIndices, 1 / std::max(0.1, 1 - share),
        Format("%.0f %% of the instructions of its hot loop compute addresses or integers one by one", 100 * share));
  }

  // The verdict on a kernel without a fault: what it uses up.
  Finding LimitOf() const {
    const double share = e_.time && e_.time->seconds > 0 ? e_.time->roof_seconds / e_.time->seconds : 0;
    if (e_.time && e_.time->seconds > 0 && e_.time->seconds < OverheadSeconds()) {
      return {Cause::kOverhead, 1,
              Format("overhead: a run takes %.1f us, about as long as starting its threads", 1e6 * e_.time->seconds)};
    }
    if (e_.schedule.blocks.empty()) return {Cause::kUnknown, 1, "no cause: it does nothing"};
    const BlockFacts* longest = &e_.schedule.blocks[0];
    for (const BlockFacts& block : e_.schedule.blocks) {
      if (EstimateBlock(block, e_.target, e_.threads).seconds > EstimateBlock(*longest, e_.target, e_.threads).seconds)
        longest = &block;
    }
    const Limit limit = EstimateBlock(*longest, e_.target, e_.threads).limit;
    const char* whom = UsesWinograd() ? " the direct convolution" : "";
    const std::string roof = share > 0 ? Format("; it runs at %.0f %% of the speed that the machine allows%s (%s)",
                                                100 * share, whom, e_.time->roof_bound.c_str())
                                       : std::string();
    const bool reached = share >= kAtTheRoof;
    if (reached && e_.time->roof_bound != "arithmetic")
      return {Cause::kMemory, 1, "memory-bound at " + e_.time->roof_bound + ": each byte moves once" + roof};
    if (limit != Limit::kArithmetic && !reached) return {Cause::kMemory, 1, MemoryText(*longest, limit) + roof};
    if (longest->slots > 0 && 2 * longest->transcendental > longest->slots) {
      return {Cause::kFunctions, 1,
              Format("functions: %.0f %% of the arithmetic of block %s are functions such as exp",
                     100 * longest->transcendental / longest->slots, longest->name.c_str()) +
                  roof};
    }
    if (share > 0 && share < kAtTheRoof / 2) {
      return {Cause::kUnknown, 1, "no single cause: its schedule and code have none of the known faults" + roof};
    }
    const std::string busy =
        (share > 0 && !reached ? "most of its time goes to the vector arithmetic of block " + longest->name
                               : "the vectors of block " + longest->name + " keep the CPU's arithmetic units busy") +
        roof;
    if (e_.winograd == kWinogradApplies && !UsesWinograd()) {
      return {Cause::kDirect, 1,
              "direct: it does not use Winograd's algorithm, which needs 2 to 4 times fewer multiplications; " + busy};
    }
    return {Cause::kArithmetic, 1, "arithmetic: " + busy};
  }

  bool UsesWinograd() const { return topi::IsWinograd(e_.alternative); }

  std::string WinogradText() const {
    if (e_.winograd.empty()) return "";
    if (UsesWinograd()) return "used (" + e_.alternative + ")";
    if (e_.winograd != kWinogradApplies) return "not possible: " + e_.winograd;
    return std::ranges::any_of(e_.alternatives, topi::IsWinograd) ? "possible, but not chosen"
                                                                  : "possible, but left out (--no-winograd)";
  }

  // Twice the seconds of a parallel loop that does nothing. In a shorter run, work is less than half of the time.
  double OverheadSeconds() const {
    const Machine& machine = MachineOf(e_.target);
    return e_.threads > 1 ? 2 * machine.fork_cycles / machine.hz : 0;
  }

  const Evidence& e_;
  double base_ = 0;
  std::vector<Finding> found_;
};

}  // namespace

size_t HotRegion(const std::vector<CodeRegion>& regions, std::span<const int64_t> samples) {
  size_t hot = 0;
  if (!samples.empty() && std::ranges::max(samples) > 0)
    return static_cast<size_t>(std::ranges::max_element(samples) - samples.begin());
  double most = -1;
  for (size_t r = 0; r < regions.size(); ++r) {
    // Without a measurement, each loop is assumed to run its body sixteen times.
    const double work = WorkOfRegion(regions[r]) * std::pow(16, regions[r].depth);
    if (work > most) most = work, hot = r;
  }
  return hot;
}

CodeFacts CodeFactsOf(const std::vector<CodeRegion>& regions, std::span<const int64_t> samples) {
  CodeFacts facts;
  auto add = [&](const CodeRegion& region, double weight) {
    for (const Instruction& i : region.instructions) {
      facts.all += weight;
      facts.vector += weight * (i.operation == Operation::kVectorArithmetic);
      facts.scalar += weight * (i.operation == Operation::kScalarArithmetic);
      facts.integer += weight * (i.operation == Operation::kInteger);
      facts.lane += weight * (i.operation == Operation::kLane);
      facts.stack += weight * i.stack;
    }
  };
  if (regions.empty()) return facts;
  if (samples.empty() || std::ranges::max(samples) == 0) {
    add(regions[HotRegion(regions)], 1);
    return facts;
  }
  for (size_t r = 0; r < regions.size(); ++r)
    add(regions[r], static_cast<double>(samples[r]) / static_cast<double>(regions[r].instructions.size()));
  return facts;
}

Explanation Explain(const Evidence& evidence) { return Explainer(evidence).Explain(); }

Result<Evidence> EvidenceOf(const PackagedKernel& kernel, const Target& target, int threads) {
  if (kernel.program.empty())
    return Err("the package holds no schedule of ", kernel.name, ": an older version of autotune wrote it");
  const std::string where = "in the schedule of " + kernel.name;
  const PrimFunc program = TRY_NOTE(ParsePrimFunc(kernel.program), where);
  const Trace trace = TRY_NOTE(ParseTrace(kernel.trace), where);
  Evidence evidence;
  evidence.target = target;
  evidence.threads = threads;
  evidence.alternative = kernel.alternative;
  evidence.alternatives = kernel.alternatives;
  evidence.winograd = kernel.winograd;
  const Nest nest = NestOf(TRY_NOTE(Replay(program, trace), where).func());
  evidence.schedule = ScheduleFactsOf(nest, target);
  // Hardly any data needs these sums, so they say nothing about the kernel's time.
  std::erase_if(evidence.schedule.blocks,
                [rare = SelectedSums(program)](const BlockFacts& b) { return b.name == rare; });
  return evidence;
}

}  // namespace autotune
