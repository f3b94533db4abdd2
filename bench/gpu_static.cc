// Prints facts about the default schedules of matrix products and of memory-bound programs for a GPU, for
// scripts/gpu_static.sh. Needs no GPU.
//   gpu_static ARCH TYPE SIZE FILE.ptx    writes the PTX and prints one row: architecture, type, size, decisions,
//                                         stages, barriers per iteration of the reduction loop, bank conflicts, sectors
//                                         that are used in part, percent of fma in the main loop (with tensor cores:
//                                         number of their products in the code), predicted percent of the peak
//   gpu_static ARCH TYPE SIZE --show      prints the trace, the lowered program, and how its warps access memory
// TYPE is that of the operands: f32, tf32, f16 or bf16. Tensor cores multiply all types but f32.
//   gpu_static ARCH PASSES ROWSxCOLUMNS FILE.ptx | --show | --unscheduled
//                                         does the same for a memory-bound program: softmax, layer_norm, row_sums,
//                                         column_sums, whole_sum, one_row (a product of one row with the matrix) or
//                                         transpose. Prints one row: architecture, program, size, decisions, kernels,
//                                         blocks, threads of a block, bytes of the smallest access to the operand, bank
//                                         conflicts, sectors that are used in part, loads of global memory in the code,
//                                         predicted percent of a copy's speed. --unscheduled prints the row of the
//                                         program without a schedule, whose loops lowering binds to threads
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/codegen.h"
#include "ir/arithmetic.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "lower/warp_accesses.h"
#include "schedule/replay.h"
#include "support/file.h"
#include "target/machine.h"
#include "te/create_prim_func.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "topi/norm.h"
#include "topi/reduce.h"
#include "topi/transform.h"
#include "tuner/defaults.h"
#include "tuner/search.h"

using namespace autotune;

namespace {

// Returns the program of a square matrix product. `type` is that of the operands: f32, tf32, f16 or bf16.
PrimFunc Product(int64_t size, const std::string& type) {
  const DType dtype = type == "tf32" ? DType::Float(32) : *DType::Parse(type);
  te::Tensor a = te::Placeholder("a", {size, size}, dtype), b = te::Placeholder("b", {size, size}, dtype);
  te::Tensor out = topi::MatMul("dense", a, b, type == "tf32" ? topi::Rounding::kTf32 : topi::Rounding::kNone);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

const std::set<std::string> kPasses = {"softmax",   "layer_norm", "row_sums", "column_sums",
                                       "whole_sum", "one_row",    "transpose"};

// Returns the program that `passes`, one of kPasses, names. Its input is a matrix of `rows` x `columns`.
PrimFunc Passes(const std::string& passes, int64_t rows, int64_t columns) {
  te::Tensor x = te::Placeholder("x", {rows, columns}), y;
  auto sum = [&](const std::string& name, const te::Tensor& of) {
    return topi::ReduceAxes(name, of, {1}, te::Combiner::kSum);
  };
  if (passes == "softmax") y = topi::Softmax("softmax", x, {1});
  if (passes == "row_sums") y = sum("sums", x);
  if (passes == "column_sums") y = topi::ReduceAxes("sums", x, {0}, te::Combiner::kSum);
  if (passes == "whole_sum") y = topi::ReduceAxes("sums", x, {0, 1}, te::Combiner::kSum);
  if (passes == "transpose") y = topi::Transpose("transpose", x, {1, 0});
  if (passes == "one_row") {
    const te::Tensor row = te::Placeholder("row", {1, rows});
    y = topi::MatMul("dense", row, x);
    return te::CreatePrimFunc("rows", {{row, ParamRole::kInput}, {x, ParamRole::kInput}, {y, ParamRole::kOutput}},
                              {.use_fma = true});
  }
  if (passes == "layer_norm") {
    const te::Tensor part = te::Splat({}, 1.0 / static_cast<double>(columns));
    const te::Tensor centered = topi::Sub("centered", x, topi::Mul("mean", sum("sum", x), part));
    const te::Tensor variance = topi::Mul("variance", sum("squares", topi::Mul("square", centered, centered)), part);
    const te::Tensor deviation = topi::Map("deviation", {variance}, [](const std::vector<Expr>& e) {
      return MakeCall(Op::kSqrt, {e[0] + FloatConst(1e-5, e[0].dtype())});
    });
    y = topi::Div("norm", centered, deviation);
  }
  return te::CreatePrimFunc("rows", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}}, {.use_fma = true});
}

bool IsAsyncWait(const Stmt& s) {
  const Evaluate* evaluate = s.As<Evaluate>();
  const Call* call = evaluate ? evaluate->value.As<Call>() : nullptr;
  return call && call->op == Op::kAsyncWait;
}

// Facts about the main loop, which runs over tiles of the reduction.
struct MainLoop {
  int barriers = 0;    // barriers in one iteration
  int64_t stages = 1;  // stages of the software pipeline
  int64_t steps = 1;   // iterations of the inner loops, in one iteration of the main loop
};
MainLoop MainLoopOf(const Stmt& kernel) {
  MainLoop main;
  Walk(kernel, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop || IsBound(loop->kind) || !HasBarrier(loop->body)) return true;
    Walk(loop->body, [&](const Stmt& x) {
      main.barriers += IsBarrier(x);
      // A wait allows a number of copy groups in flight: all stages but the one in use and the one that begins.
      if (IsAsyncWait(x)) main.stages = *AsInt(x.As<Evaluate>()->value.As<Call>()->args[0]) + 2;
      if (const For* inner = x.As<For>()) main.steps *= *AsInt(inner->extent);
      return true;
    });
    return false;
  });
  return main;
}

// Returns the share of fma among the instructions of the loop with barriers. Each instruction is weighted by how often
// an iteration executes it.
double FmaShare(const std::string& ptx, int64_t steps) {
  std::vector<std::string> lines;
  std::istringstream stream(ptx);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::map<std::string, size_t> labels;
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> loops;
  std::smatch match;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (std::regex_search(lines[i], match, std::regex(R"(^(\$L\w+):)"))) labels[match[1]] = i;
    if (std::regex_search(lines[i], match, std::regex(R"(\bbra(?:\.uni)?\s+(\$L\w+);)")) && labels.contains(match[1]))
      loops.push_back({labels[match[1]], i});
  }
  auto has = [&](const Range& range, const std::string& what) {
    return std::any_of(lines.begin() + static_cast<int64_t>(range.begin),
                       lines.begin() + static_cast<int64_t>(range.end),
                       [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  double fma = 0, all = 0;
  for (const Range& loop : loops) {
    if (!has(loop, "bar.sync")) continue;
    for (size_t i = loop.begin; i <= loop.end; ++i) {
      if (lines[i].size() < 2 || lines[i][0] != '\t' || lines[i][1] == '.' || lines[i][1] == '/') continue;
      const bool inside = std::any_of(loops.begin(), loops.end(), [&](const Range& inner) {
        return inner.begin > loop.begin && inner.begin <= i && i <= inner.end && has(inner, "\tfma");
      });
      const double times = inside ? static_cast<double>(steps) : 1;
      all += times;
      if (lines[i].starts_with("\tfma")) fma += times;
    }
  }
  return all > 0 ? fma / all : 0;
}

// Returns the time of a GPU that only computes multiply-adds at its peak, over the time that the draft score predicts.
double PeakShare(int64_t size, const std::string& type, double seconds, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double lanes = type == "f32" ? machine.lanes : type == "tf32" ? machine.tf32_lanes : machine.half_lanes;
  const double ideal = std::pow(static_cast<double>(size), 3) / (lanes * target.num_cores * machine.hz);
  return ideal / seconds;
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

void Show(const Proposal& proposal, const LoweredKernel& kernel) {
  std::printf("%s\n%s\n", ToText(proposal.trace).c_str(), ToText(kernel.run).c_str());
  for (const WarpAccess& a : WarpAccessesOf(kernel.run.body)) {
    std::printf("%s %s: %d bytes, %d conflicts, %d sectors of %d, %.0f times\n", a.buffer.str().c_str(),
                a.write ? "write" : "read", static_cast<int>(a.bytes), static_cast<int>(a.conflicts),
                static_cast<int>(a.sectors), static_cast<int>(a.least_sectors), a.times);
  }
}

// The program with its default schedule.
struct Chosen {
  std::string decisions;
  double seconds = 0;  // time predicted by the draft score
  LoweredKernel lowered;
  KernelObject object;
};
// Chooses the default schedule and writes its PTX to `file`; if `file` is --show, prints the program instead.
Result<Chosen> Choose(const Target& target, TuneTask task, const std::string& file) {
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  const std::vector<Proposal> proposals = DefaultProposals(space, 1);
  if (proposals.empty()) return Err("no schedule is proposed");
  Schedule schedule = TRY(Replay(task.alternatives[0].func, proposals[0].trace));
  Chosen chosen;
  chosen.seconds = proposals[0].draft_seconds;
  chosen.lowered = TRY(Lower(schedule.func(), target));
  for (const Decision& decision : proposals[0].decisions)
    chosen.decisions += (chosen.decisions.empty() ? "" : ",") + std::to_string(decision.values[0]);
  if (file == "--show") return Show(proposals[0], chosen.lowered), chosen;
  chosen.object = TRY(CompileKernel(chosen.lowered, target));
  if (!chosen.object.rejected.empty()) return Err(chosen.object.rejected);
  TRY(WriteFile(file, chosen.object.source));
  return chosen;
}

// Facts about the kernels of a program. Some are about the kernel that reads the operand x, the matrix.
struct Kernels {
  // Number of kernels; blocks of the kernel that reads x; threads of each of these blocks.
  int64_t count = 0, blocks = 1, threads = 1;
  int64_t least_bytes = 16;                   // bytes of the smallest access to x by one thread
  int64_t conflicts = 0, wasted_sectors = 0;  // bank conflicts and superfluous sectors, summed over all kernels
};

int64_t CountOf(const Stmt& kernel, bool (*is_axis)(LoopKind)) {
  int64_t count = 1;
  std::set<LoopKind> seen;  // the stages of a kernel share its axes
  Walk(kernel, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (loop && IsBound(loop->kind) && is_axis(loop->kind) && seen.insert(loop->kind).second)
      count *= *AsInt(loop->extent);
    return true;
  });
  return count;
}

Kernels KernelsOf(Stmt body) {
  while (const Alloc* alloc = body.As<Alloc>()) body = Stmt(alloc->body);
  const Seq* seq = body.As<Seq>();
  Kernels facts;
  for (const Stmt& kernel : seq ? seq->stmts : std::vector<Stmt>{body}) {
    ++facts.count;
    for (const WarpAccess& access : WarpAccessesOf(kernel)) {
      facts.conflicts += access.conflicts;
      facts.wasted_sectors += access.sectors - access.least_sectors;
      if (access.buffer != Name("x")) continue;
      facts.least_bytes = std::min(facts.least_bytes, access.bytes);
      facts.blocks = CountOf(kernel, [](LoopKind kind) { return !IsThreadAxis(kind); });
      facts.threads = CountOf(kernel, [](LoopKind kind) { return IsThreadAxis(kind); });
    }
  }
  return facts;
}

void PrintPasses(const std::string& row, const Kernels& kernels) {
  std::printf("%s %d %d %d %d %d %d", row.c_str(), static_cast<int>(kernels.count), static_cast<int>(kernels.blocks),
              static_cast<int>(kernels.threads), static_cast<int>(kernels.least_bytes),
              static_cast<int>(kernels.conflicts), static_cast<int>(kernels.wasted_sectors));
}

Status RunPasses(const Target& target, const std::string& passes, const std::string& size, const std::string& file) {
  const size_t x = size.find('x');
  const int64_t rows = std::atoll(size.c_str()), columns = x < size.size() ? std::atoll(size.c_str() + x + 1) : 0;
  if (rows < 1 || columns < 1) return Err("a size is ROWSxCOLUMNS, not ", size);
  const PrimFunc func = Passes(passes, rows, columns);
  const std::string row = target.arch + " " + passes + " " + size + " ";
  if (file == "--unscheduled") {
    PrintPasses(row + "-", KernelsOf(TRY(Lower(func, target)).run.body));
    std::printf(" - -\n");
    return {};
  }
  TuneTask task;
  task.alternatives.push_back({"direct", func});
  const Chosen chosen = TRY(Choose(target, task, file));
  if (file == "--show") return {};
  const GpuMachine machine = GpuMachineOf(target);
  // The ideal time is that of a copy kernel, including its launch. The copy reads and writes as many bytes in total as
  // the parameters of `func` have.
  const double bytes = static_cast<double>(BytesOfParams(func));
  const double ideal =
      (bytes / (machine.memory_bytes_per_cycle * target.num_cores) + machine.memory_latency + machine.launch_cycles) /
      machine.hz;
  PrintPasses(row + (chosen.decisions.empty() ? "-" : chosen.decisions), KernelsOf(chosen.lowered.run.body));
  std::printf(" %d %.1f\n", CountOf(chosen.object.source, "ld.global"), 100 * ideal / chosen.seconds);
  return {};
}

Status Run(const Target& target, const std::string& type, int64_t size, const std::string& file) {
  TuneTask task;
  task.alternatives.push_back({type == "tf32" ? "tf32" : "direct", Product(size, type)});
  const Chosen chosen = TRY(Choose(target, task, file));
  if (file == "--show") return {};
  int64_t conflicts = 0, wasted = 0;
  for (const WarpAccess& access : WarpAccessesOf(chosen.lowered.run.body)) {
    conflicts += access.conflicts;
    wasted += access.sectors - access.least_sectors;
  }
  const MainLoop main = MainLoopOf(chosen.lowered.run.body);
  const double work = type == "f32" ? 100 * FmaShare(chosen.object.source, main.steps)
                                    : CountOf(chosen.object.source, "mma.sync.aligned");
  std::printf("%s %s %d %s %d %d %d %d %.1f %.1f\n", target.arch.c_str(), type.c_str(), static_cast<int>(size),
              chosen.decisions.c_str(), static_cast<int>(main.stages), main.barriers, static_cast<int>(conflicts),
              static_cast<int>(wasted), work, 100 * PeakShare(size, type, chosen.seconds, target));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string type = argc == 5 ? argv[2] : "";
  const bool passes = kPasses.contains(type);
  if (!passes && type != "f32" && type != "tf32" && type != "f16" && type != "bf16")
    return std::fputs(
               "gpu_static ARCH f32|tf32|f16|bf16 SIZE FILE.ptx | --show\n"
               "gpu_static ARCH softmax|layer_norm|row_sums|column_sums|whole_sum|one_row|transpose ROWSxCOLUMNS "
               "FILE.ptx | --show | --unscheduled\n",
               stderr),
           2;
  Result<Target> target = Target::Parse(std::string("cuda -arch=") + argv[1] + (type == "tf32" ? " -tf32=1" : ""));
  Status done = !target.ok() ? Status(target.error())
                : passes     ? RunPasses(*target, type, argv[3], argv[4])
                             : Run(*target, type, std::atoll(argv[3]), argv[4]);
  if (!done.ok()) return std::fprintf(stderr, "gpu_static: %s\n", done.error().Text().c_str()), 1;
  return 0;
}
