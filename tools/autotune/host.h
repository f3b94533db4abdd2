// Facts and speeds of this host, for `autotune devices`, `autotune doctor` and `autotune bench --profile`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "ir/dtype.h"
#include "rpc/client.h"
#include "service/machine_text.h"
#include "support/json.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

// Describes this host for programs: {"model", "usable_cores", "online_cores", "memory_bytes", "l1_bytes", "l2_bytes",
// "l3_bytes"}.
Json MachineJson();

// The speed of copying data within one level of the memory hierarchy, with all of a target's cores at once.
struct CopySpeed {
  std::string level;            // "L1", "L2", "L3", "memory"
  double capacity = 0;          // bytes that this level holds, for all cores together; infinite for memory
  double bytes_per_second = 0;  // read and written
};
// Measures each level that the target has, and memory as the last one. Takes about a second.
Result<std::vector<CopySpeed>> MeasureCopySpeeds(const Target& target);

// The shortest time that a machine allows for a computation (Williams, Waterman, Patterson, "Roofline", 2009).
struct Roof {
  double seconds = 0;  // 0: there is nothing to compute or to move
  std::string bound;   // the limit: "arithmetic", or the level that holds the data
};
struct Roofline {
  // The peak of products of bytes (i8) or bf16, in operations per second of all cores.
  struct DotPeak {
    DType factors;
    double per_second = 0;
  };
  double flops_per_second = 0;     // fp32 multiply-adds, all cores (MeasurePeakFlops)
  std::vector<CopySpeed> copying;  // nearest level first
  std::vector<DotPeak> dots = {};  // of types for which the target has instructions
  bool IsKnown() const { return flops_per_second > 0; }
  // Returns the larger of two times: the arithmetic at its peak, and moving the data once in the nearest level that
  // holds all of it. This is the best case, since a kernel takes longer if it finds its data further away. `small`:
  // what the kernel multiplies instead of f32. Without a peak for it, copying alone counts.
  Roof Of(double flops, double bytes, std::optional<DType> small = std::nullopt) const;
};
// Returns SmallProductsOf (ir/added_product.h) a program's text.
std::optional<DType> SmallProductsIn(const std::string& program);
// Measures as many cores of this host as the target has. Waits for the host's lock twice, up to `patience_ms` each
// time.
Result<Roofline> MeasureRoofline(const Target& target, Builder& builder, int patience_ms);
// The same of the CPU of a device of a farm with so much memory, by kernels that run there. The client may wait for it.
Result<Roofline> MeasureRooflineOn(rpc::FarmClient& farm, const Target& target, int64_t memory_bytes, Builder& builder,
                                   const rpc::MeasureCallbacks& callbacks);

// The variation of the times of one loop that is run many times.
struct Noise {
  double median = 0, worst = 0;  // time of the median and the slowest run over that of the fastest, minus 1
  double fastest = 0;            // time of the fastest run in seconds
};
// Measures the noise for about half a second on one core.
Noise MeasureNoise();
// Returns "repeats of one loop vary by 1.2 % (median), the worst took 1.4 times as long", with a warning if the machine
// is too busy for tuning.
std::string NoiseText(const Noise& noise);

struct HostSpeed {
  Roofline roofline;
  Noise noise;
  bool alone = false;  // measured under the host's lock; false: other processes may have disturbed the measurement
};
// Measures for about two seconds on all cores, and waits up to 1.5 s longer if others hold the host's lock.
Result<HostSpeed> MeasureHostSpeed(const Target& target, Builder& builder);

}  // namespace autotune::tools
