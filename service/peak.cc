#include "service/peak.h"

#include <algorithm>
#include <chrono>

#include "ir/tile_product.h"
#include "runtime/artifact.h"
#include "runtime/kernel_context.h"
#include "runtime/tensor.h"
#include "support/host_lock.h"

namespace autotune {

namespace {

constexpr int kRepeats = 20;  // calls of the kernel; 50 ms for multiply-adds, longer than a time slice

// The text of a program in three parts: it sets a register tile of `rows` vectors to zero, updates the tile in a loop
// nest, and copies it to the output. Loops a1 and v1 of the update run over the tile.
struct TileProgram {
  std::string rows, lanes;
  std::string inputs;  // parameters besides the output
  std::string loops;   // loops around the update
  std::string inner;   // loop inside the vector
  std::string iterators, value;
  std::string type = "f32", zero = "0.0";  // of the tile
  std::string Text() const {
    const std::string tile = "[" + rows + ", " + lanes + "]";
    auto nest = [&](const std::string& n, const std::string& body) {
      return "for a" + n + " in " + rows + " unrolled { for v" + n + " in " + lanes + " vectorized {\n" + body +
             " } }\n";
    };
    auto iters = [&](const std::string& n) {
      return "y" + n + ": S " + rows + " = a" + n + ", z" + n + ": S " + lanes + " = v" + n;
    };
    std::string closing;
    for (char c : loops) closing += c == '{' ? " }" : "";
    const std::string step = "block step(" + iterators + iters("1") + ") { acc[y1, z1] = " + value + " }";
    return "func probe(" + inputs + "out: " + type + tile + " output) {\n  alloc acc: " + type + tile + " register\n" +
           nest("0", "block zero(" + iters("0") + ") { acc[y0, z0] = " + zero + " }") + loops +
           nest("1", inner.empty() ? step : inner + step + " }") + closing + "\n" +
           nest("2", "block copy(" + iters("2") + ") { out[y2, z2] = acc[y2, z2] }") + "}\n";
  }
};

struct FastestCall {
  double seconds = 0;
  bool alone = false;  // measured under the host's lock
};

constexpr char kKernel[] = "probe";

Result<std::string> Built(const std::string& program, const Target& target, Builder& builder) {
  BuildRequest request;
  request.kernel = kKernel;
  request.target = target.Text();
  request.func = program;
  BuildResult built = builder.Build({request})[0];
  if (built.status != TrialStatus::kOk) return Err("cannot build a kernel that measures the cores: ", built.text);
  return std::move(built.artifact.data);
}

// Builds the program and calls it on one core.
Result<FastestCall> FastestOf(const std::string& program, const Target& target, Builder& builder, int patience_ms) {
  std::shared_ptr<const Artifact> artifact = TRY(Artifact::FromBytes(TRY(Built(program, target, builder))));
  const Kernel* kernel = TRY(artifact->Find(kKernel));
  std::vector<Tensor> args = TRY(AllocateArgs(kernel->metadata));
  KernelContext context(1);
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, patience_ms));
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    auto begin = std::chrono::steady_clock::now();
    TRY(CallKernel(*kernel, context, args, {}));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return FastestCall{best, alone.has_value()};
}

// The same on a device of a farm, on so many cores.
Result<FastestCall> FastestOn(rpc::FarmClient& farm, const std::string& program, int cores, const Target& target,
                              Builder& builder, rpc::MeasureCallbacks callbacks) {
  std::string library = TRY(Built(program, target, builder));
  rpc::Candidate candidate;
  candidate.id = candidate.kernel = kKernel;
  candidate.check = false;
  candidate.repeats = kRepeats;
  candidate.threads = cores;
  candidate.cold_weights = false;
  candidate.min_repeat_ms = 1;  // one call takes longer
  rpc::MeasureJob job;
  job.task.id = kKernel;
  job.candidates = {candidate};
  job.artifacts = {rpc::MakeBlob(std::move(library))};
  const rpc::TrialResult result = TRY(farm.Measure(std::move(job), std::move(callbacks)))[0];
  if (result.status != TrialStatus::kOk || result.times.empty())
    return Err("the device could not run the kernel that measures its cores: ", ToText(result.status), ", ",
               result.error);
  return FastestCall{*std::ranges::min_element(result.times), result.disturbed.empty()};
}

constexpr int64_t kSteps = 1000000;    // of the loop of multiply-adds
constexpr int64_t kTileSteps = 20000;  // of the loop over products of tiles; each takes tens of cycles
constexpr int kAccumulators = 12;      // number that hides the latency of a multiply-add

TileProgram MultiplyAdds(const Target& target, int accumulators) {
  const std::string steps = std::to_string(kSteps);
  TileProgram program{.rows = std::to_string(accumulators), .lanes = std::to_string(target.VectorLanes(32))};
  program.loops = "for k in " + steps + " { ";
  program.iterators = "x1: R " + steps + " = k, ";
  program.value = target.has_fma ? "fma(acc[y1, z1], 0.5, 1.0)" : "acc[y1, z1] * 0.5 + 1.0";
  return program;
}

// Adds groups of products: each vector of the tile adds those of a group that all its lanes share and of one for each
// lane, as products of matrices do.
TileProgram Dots(DType factors, const Target& target) {
  const bool bytes = IsByte(factors);
  const std::string steps = std::to_string(kSteps), rows = std::to_string(kAccumulators);
  const std::string lanes = std::to_string(target.VectorLanes(32)), group = std::to_string(DotGroup(factors));
  // Instructions for bytes multiply unsigned ones by signed ones everywhere.
  const std::string a = bytes ? "u8" : factors.Text(), b = factors.Text(), sum = SumType(factors, factors).Text();
  TileProgram program{.rows = rows, .lanes = lanes, .type = sum, .zero = factors.IsInt() ? "i32(0)" : "0.0"};
  program.inputs =
      "a: " + a + "[" + rows + ", " + group + "] input, b: " + b + "[" + lanes + ", " + group + "] input, ";
  program.loops = "for k in " + steps + " { ";
  program.inner = "for g in " + group + " @{dot=1} { ";
  program.iterators = "x1: R " + steps + " = k, g1: R " + group + " = g, ";
  program.value = "acc[y1, z1] + " + sum + "(a[y1, g1]) * " + sum + "(b[z1, g1])";
  return program;
}

// The same by registers of two dimensions (ir/tile_product.h): two by two tiles of sums, which use both operands twice.
std::string Tiles(DType factors) {
  const bool bytes = IsByte(factors);
  const auto text = [](int64_t number) { return std::to_string(number); };
  const std::string a = bytes ? "u8" : factors.Text(), b = factors.Text(), sum = SumType(factors, factors).Text();
  const std::string rows = text(2 * kTileRows), columns = text(2 * kTileColumns), row = text(kTileRows);
  const std::string groups = text(kTileGroups), group = text(DotGroup(factors)), steps = text(kTileSteps);
  return "func probe(a: " + a + "[" + rows + ", " + groups + ", " + group + "] input, b: " + b + "[" + groups + ", " +
         columns + ", " + group + "] input, out: " + sum + "[" + rows + ", " + columns + "] output) {\n  for i0 in " +
         rows + " { for j0 in " + columns + " { block zero(y0: S " + rows + " = i0, z0: S " + columns +
         " = j0) { out[y0, z0] = " + (bytes ? "i32(0)" : "0.0") + " } } }\n  for h in " + steps +
         " @{tiles=1} { for k in " + groups + " { for t in 2 { for i in " + row + " { for j in " + columns +
         " { for s in " + group + " {\nblock step(h1: R " + steps + " = h, y1: S " + rows + " = t * " + row +
         " + i, z1: S " + columns + " = j, g1: R " + groups + " = k, s1: R " + group +
         " = s) { out[y1, z1] = out[y1, z1] + " + sum + "(a[y1, g1, s1]) * " + sum +
         "(b[g1, z1, s1]) }\n} } } } } }\n}\n";
}

double SecondsPerStep(const FastestCall& call, int accumulators) {
  return call.seconds / (static_cast<double>(kSteps) * accumulators);
}

MeasuredPeak PeakOf(const FastestCall& call, const Target& target) {
  return {2.0 * target.VectorLanes(32) / SecondsPerStep(call, kAccumulators) * target.num_cores, call.alone};
}

}  // namespace

Result<double> SecondsPerMultiplyAdd(const Target& target, Builder& builder, int accumulators, int patience_ms) {
  const TileProgram program = MultiplyAdds(target, accumulators);
  return SecondsPerStep(TRY(FastestOf(program.Text(), target, builder, patience_ms)), accumulators);
}

Result<double> BytesReadPerSecond(const Target& target, Builder& builder, int64_t bytes, int patience_ms) {
  constexpr int64_t kSums = 8;                       // number that hides the latency of an addition
  constexpr int64_t kLeastBytes = int64_t{4} << 20;  // bytes read by a call; makes the call's own cost negligible
  const int64_t lanes = target.VectorLanes(32), line = kSums * lanes * 4;
  const std::string lines = std::to_string(std::max<int64_t>(1, bytes / line));
  const int64_t passes = std::max<int64_t>(1, kLeastBytes / bytes);
  const std::string repeats = std::to_string(passes);
  TileProgram program{.rows = std::to_string(kSums), .lanes = std::to_string(lanes)};
  program.inputs = "x: f32[" + lines + ", " + program.rows + ", " + program.lanes + "] input, ";
  program.loops = "for r in " + repeats + " { for i in " + lines + " { ";
  program.iterators = "p1: R " + repeats + " = r, x1: R " + lines + " = i, ";
  program.value = "acc[y1, z1] + x[x1, y1, z1]";
  const double seconds = TRY(FastestOf(program.Text(), target, builder, patience_ms)).seconds;
  return static_cast<double>(passes * std::max<int64_t>(1, bytes / line) * line) / seconds;
}

Result<MeasuredPeak> MeasurePeakFlops(const Target& target, Builder& builder, int patience_ms) {
  return PeakOf(TRY(FastestOf(MultiplyAdds(target, kAccumulators).Text(), target, builder, patience_ms)), target);
}

Result<MeasuredPeak> MeasurePeakFlopsOn(rpc::FarmClient& farm, const Target& target, Builder& builder,
                                        rpc::MeasureCallbacks callbacks) {
  const std::string program = MultiplyAdds(target, kAccumulators).Text();
  return PeakOf(TRY(FastestOn(farm, program, 1, target, builder, std::move(callbacks))), target);
}

namespace {

// Returns the program that measures the peak of products of these numbers, and its operations.
std::pair<std::string, double> PeakOfDotsProgram(DType factors, const Target& target) {
  const double group = DotGroup(factors);
  if (!target.has_tiles)
    return {Dots(factors, target).Text(), 2 * group * target.VectorLanes(32) * kAccumulators * kSteps};
  return {Tiles(factors), 2 * group * kTileGroups * (2 * kTileRows) * (2 * kTileColumns) * kTileSteps};
}

}  // namespace

Result<MeasuredPeak> MeasurePeakOfDots(DType factors, const Target& target, Builder& builder, int patience_ms) {
  const auto [program, operations] = PeakOfDotsProgram(factors, target);
  const FastestCall call = TRY(FastestOf(program, target, builder, patience_ms));
  return MeasuredPeak{operations / call.seconds * target.num_cores, call.alone};
}

Result<MeasuredPeak> MeasurePeakOfDotsOn(DType factors, rpc::FarmClient& farm, const Target& target, Builder& builder,
                                         rpc::MeasureCallbacks callbacks) {
  const auto [program, operations] = PeakOfDotsProgram(factors, target);
  const FastestCall call = TRY(FastestOn(farm, program, 1, target, builder, std::move(callbacks)));
  return MeasuredPeak{operations / call.seconds * target.num_cores, call.alone};
}

Result<double> BytesCopiedPerSecondOn(rpc::FarmClient& farm, const Target& target, Builder& builder, int64_t bytes,
                                      rpc::MeasureCallbacks callbacks) {
  constexpr int64_t kVectors = 4;                    // copied by one step
  constexpr int64_t kLeastBytes = int64_t{8} << 20;  // copied by a core in a call; makes the call's own cost negligible
  const int64_t lanes = kVectors * target.VectorLanes(32), step = lanes * 4;
  const int64_t steps = std::max<int64_t>(1, bytes / step), passes = std::max<int64_t>(1, kLeastBytes / bytes);
  const auto text = [](int64_t number) { return std::to_string(number); };
  const std::string buffer = "f32[" + text(target.num_cores) + ", " + text(steps) + ", " + text(lanes) + "]";
  const std::string program = "func probe(x: " + buffer + " input, out: " + buffer + " output) {\n  for c in " +
                              text(target.num_cores) + " parallel { for p in " + text(passes) + " { for s in " +
                              text(steps) + " { for v in " + text(lanes) + " vectorized {\nblock copy(c1: S " +
                              text(target.num_cores) + " = c, p1: R " + text(passes) + " = p, s1: S " + text(steps) +
                              " = s, v1: S " + text(lanes) + " = v) { out[c1, s1, v1] = x[c1, s1, v1] }\n} } } }\n}\n";
  const FastestCall call = TRY(FastestOn(farm, program, target.num_cores, target, builder, std::move(callbacks)));
  return static_cast<double>(2 * target.num_cores * passes * steps * step) / call.seconds;
}

}  // namespace autotune
