// Facts of the matrix products that are chosen untuned for a GPU, computed without one, for scripts/gpu_static.sh.
//   gpu_static ARCH SIZE FILE.ptx      one row of facts; writes the PTX
//   gpu_static ARCH SIZE --show        the trace, the lowered program, and how its warps access memory
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "ir/threads.h"
#include "lower/lower.h"
#include "lower/warp_accesses.h"
#include "schedule/replay.h"
#include "support/file.h"
#include "target/machine.h"
#include "te/create_prim_func.h"
#include "topi/matmul.h"
#include "tuner/search.h"
#include "tuner/rule/rule.h"

using namespace autotune;

namespace {

PrimFunc Product(int64_t size) {
  te::Tensor a = te::Placeholder("a", {size, size}), b = te::Placeholder("b", {size, size});
  te::Tensor out = topi::MatMul("dense", a, b);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

Status Run(const Target& target, int64_t size, const char* file) {
  TuneTask task;
  task.alternatives.push_back({"direct", Product(size)});
  { SketchBuilder sb(task.alternatives[0].func, target); auto bl = sb.Blocks(); auto st = GpuTilingRule(sb, *FindBlock(bl, "dense"), 0); if (!st.ok()) std::printf("REFUSED %s\n", st.error().Text().c_str()); }
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  const std::vector<Proposal> proposals = DefaultProposals(space, 1);
  if (proposals.empty()) return Err("no schedule is proposed");
  Schedule schedule = TRY(Replay(task.alternatives[0].func, proposals[0].trace));
  LoweredKernel lowered = TRY(Lower(schedule.func(), target));
  if (std::strcmp(file, "--show") == 0) {
    std::printf("%s\n%s\n", ToText(proposals[0].trace).c_str(), ToText(lowered.run).c_str());
    for (const WarpAccess& a : WarpAccessesOf(lowered.run.body))
      std::printf("%s %s %ld bytes, %ld conflicts, %ld sectors of %ld, %.0f times\n", a.buffer.str().c_str(),
                  a.write ? "write" : "read", a.bytes, a.conflicts, a.sectors, a.least_sectors, a.times);
    return {};
  }
  KernelObject object = TRY(CompileKernel(lowered, target));
  if (!object.rejected.empty()) return Err(object.rejected);
  TRY(WriteFile(file, object.source));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("gpu_static ARCH SIZE FILE.ptx | --show\n", stderr), 2;
  Result<Target> target = Target::Parse(std::string("cuda -arch=") + argv[1]);
  Status done = target.ok() ? Run(*target, std::atoll(argv[2]), argv[3]) : Status(target.error());
  if (!done.ok()) return std::fprintf(stderr, "gpu_static: %s\n", done.error().Text().c_str()), 1;
  return 0;
}
