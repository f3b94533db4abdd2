#include "tools/autotune/peak.h"

#include <algorithm>
#include <chrono>

#include "runtime/artifact.h"
#include "runtime/kernel_context.h"
#include "runtime/tensor.h"
#include "support/host_lock.h"

namespace autotune::tools {

Result<double> MeasurePeakFlops(const Target& target, Builder& builder, int patience_ms) {
  constexpr int64_t kSteps = 1000000, kAccumulators = 12;  // enough of them to hide the latency of a multiply-add
  constexpr int kRepeats = 20;                             // some 50 ms in all: longer than a neighbour's time slice
  std::string lanes = std::to_string(target.VectorLanes(32));
  std::string steps = std::to_string(kSteps), rows = std::to_string(kAccumulators);
  std::string update = target.has_fma ? "fma(acc[y1, z1], 0.5, 1.0)" : "acc[y1, z1] * 0.5 + 1.0";
  BuildRequest request;
  request.kernel = "peak";
  request.target = target.Text();
  request.func = "func peak(out: f32[" + rows + ", " + lanes + "] output) {\n" + "  alloc acc: f32[" + rows + ", " +
                 lanes + "] register\n" + "  for a0 in " + rows + " unrolled { for v0 in " + lanes + " vectorized {\n" +
                 "    block zero(y0: S " + rows + " = a0, z0: S " + lanes + " = v0) { acc[y0, z0] = 0.0 } } }\n" +
                 "  for k in " + steps + " { for a1 in " + rows + " unrolled { for v1 in " + lanes + " vectorized {\n" +
                 "    block step(x1: R " + steps + " = k, y1: S " + rows + " = a1, z1: S " + lanes +
                 " = v1) { acc[y1, z1] = " + update + " } } } }\n" + "  for a2 in " + rows + " unrolled { for v2 in " +
                 lanes + " vectorized {\n" + "    block copy(y2: S " + rows + " = a2, z2: S " + lanes +
                 " = v2) { out[y2, z2] = acc[y2, z2] } } }\n}\n";
  BuildResult built = builder.Build({request})[0];
  if (built.status != TrialStatus::kOk) return Err("cannot measure the peak: ", built.text);
  std::shared_ptr<const Artifact> artifact = TRY(Artifact::FromBytes(built.artifact.data));
  const Kernel* kernel = TRY(artifact->Find("peak"));
  std::vector<Tensor> args = TRY(AllocateArgs(kernel->metadata));
  KernelContext context(1);
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, patience_ms));
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    auto begin = std::chrono::steady_clock::now();
    TRY(CallKernel(*kernel, context, args, {}));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 2.0 * kSteps * kAccumulators * target.VectorLanes(32) / best * target.num_cores;
}

}  // namespace autotune::tools
