// Measures the peak speed of one core of this host: multiply-adds, and reading memory; and of the device of a farm:
// multiply-adds of one core, and copying with all cores. The measured kernels are built
// for the target like any other kernel, so compiled kernels can reach these numbers. The target must be this host's,
// or that of the device of a farm.
// Each call holds the host lock if it gets the lock within `patience_ms`, and measures without it otherwise.
#pragma once
#include "codegen/builder.h"
#include "ir/dtype.h"
#include "rpc/client.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

inline constexpr int kHostPatienceMs = 30000;  // longest wait for the host's lock; equal to that of device servers

// Returns the seconds per multiply-add of a whole vector in registers, with `accumulators` independent sums. With one
// sum this is the latency of the instruction.
Result<double> SecondsPerMultiplyAdd(const Target& target, Builder& builder, int accumulators, int patience_ms);

// Returns the bytes per second that one core reads when it sums up a buffer of `bytes` again and again.
Result<double> BytesReadPerSecond(const Target& target, Builder& builder, int64_t bytes, int patience_ms);

// The peak of a target in fp32 operations per second, which is the 100 % of "% peak" in tables: the measured peak of
// one core, times the number of cores.
struct MeasuredPeak {
  double flops = 0;
  bool alone = false;  // measured under the host's lock; false: other processes may have disturbed the measurement
};
Result<MeasuredPeak> MeasurePeakFlops(const Target& target, Builder& builder, int patience_ms = kHostPatienceMs);
// The same of a device of a farm, on which it runs the kernel. Waits for a device if the client has none.
Result<MeasuredPeak> MeasurePeakFlopsOn(rpc::FarmClient& farm, const Target& target, Builder& builder,
                                        rpc::MeasureCallbacks callbacks = {});
// The same for products of bytes (i8) or bf16, of which the target has instructions (Target::HasDot, has_tiles).
Result<MeasuredPeak> MeasurePeakOfDots(DType factors, const Target& target, Builder& builder, int patience_ms);
Result<MeasuredPeak> MeasurePeakOfDotsOn(DType factors, rpc::FarmClient& farm, const Target& target, Builder& builder,
                                         rpc::MeasureCallbacks callbacks);
// Returns the bytes that the device of a farm reads and writes per second when each of the target's cores copies a
// buffer of about `bytes` again and again.
Result<double> BytesCopiedPerSecondOn(rpc::FarmClient& farm, const Target& target, Builder& builder, int64_t bytes,
                                      rpc::MeasureCallbacks callbacks = {});

}  // namespace autotune
