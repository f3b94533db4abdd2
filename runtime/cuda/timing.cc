// Times of commands on a CUDA device, and the state of its clocks.
#include <chrono>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/nvml.h"

namespace autotune::cuda {
namespace {

// The reference kernel: chains of dependent multiply-adds, whose time depends on the clock of the multiprocessors only.
// 65536 iterations of four of them take 0.5 ms at 2 GHz, since each takes 4 cycles.
constexpr const char* kReferencePtx = R"(.version 6.0
.target sm_70
.address_size 64
.visible .entry autotune_reference (.param .u64 data)
{
  .reg .pred %p1;
  .reg .b32 %r1;
  .reg .f32 %f<3>;
  .reg .b64 %a<3>;
  ld.param.u64 %a1, [data];
  cvta.to.global.u64 %a2, %a1;
  ld.global.f32 %f1, [%a2];
  mov.f32 %f2, 0f3F000000;
  mov.u32 %r1, 0;
again:
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  fma.rn.f32 %f1, %f1, %f2, %f2;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, 65536;
  @%p1 bra again;
  st.global.f32 [%a2], %f1;
  ret;
}
)";
// Warps that keep the multiply-add units of a multiprocessor busy: each of its four schedulers has four. So the GPU
// draws about as much power as in a product of matrices.
constexpr unsigned kReferenceThreads = 512;

}  // namespace

Status CudaDevice::MakeEvents() {
  for (Event* event : {&begin_, &end_}) {
    // A thread that waits for the event sleeps, so that its core is free for builds.
    if (!*event) TRY(Check(api_.cuEventCreate(event, kBlockingSync), "making an event"));
  }
  return {};
}

Result<double> CudaDevice::Time(const std::function<Status()>& give) {
  Session session(*this);
  TRY(session.status());
  TRY(CheckNotCapturing("a measurement"));
  TRY(MakeEvents());
  TRY(Check(api_.cuEventRecord(begin_, stream_), "recording an event"));
  TRY(give());
  TRY(Check(api_.cuEventRecord(end_, stream_), "recording an event"));
  TRY(Check(api_.cuEventSynchronize(end_), "a command"));
  float milliseconds = 0;
  TRY(Check(api_.cuEventElapsedTime(&milliseconds, begin_, end_), "reading an event"));
  return static_cast<double>(milliseconds) / 1e3;
}

// Loads the reference kernel. A driver that does not compile it leaves the device without one.
Status CudaDevice::LoadReference() {
  if (std::exchange(tried_reference_, true)) return {};
  if (api_.cuModuleLoadDataEx(&reference_image_, kReferencePtx, 0, nullptr, nullptr) != kSuccess) return {};
  TRY(Check(api_.cuMemAlloc_v2(&reference_data_, sizeof(float)), "an allocation"));
  TRY(Check(api_.cuMemsetD8Async(reference_data_, 0, sizeof(float), stream_), "a fill"));
  return Check(api_.cuModuleGetFunction(&reference_, reference_image_, "autotune_reference"), "loading a kernel");
}

void CudaDevice::FreeReference() {
  if (reference_data_) api_.cuMemFree_v2(reference_data_);
  if (reference_image_) api_.cuModuleUnload(reference_image_);
}

Result<Device::Reading> CudaDevice::Settle() {
  using Clock = std::chrono::steady_clock;
  Session session(*this);
  TRY(session.status());
  TRY(LoadReference());
  if (!reference_) return Reading();
  void* args[] = {&reference_data_};
  auto launch = [&] {
    return Check(api_.cuLaunchKernel(reference_, static_cast<unsigned>(limits_.units), 1, 1, kReferenceThreads, 1, 1, 0,
                                     stream_, args, nullptr),
                 "a launch");
  };
  // Times the second of two launches. On an idle GPU, the time between the first event and the launch, some
  // microseconds of the host, would be a percent of the reading.
  auto read = [&]() -> Result<double> {
    TRY(launch());
    return Time(launch);
  };
  const Clock::time_point begin = Clock::now();
  double before = TRY(read()), sum = before;
  while (true) {
    const double now = TRY(read());
    if (AreEqualReadings(before, now)) return Reading{now, true};
    sum += now;
    if (std::max(sum, std::chrono::duration<double>(Clock::now() - begin).count()) > kMostSettleSeconds)
      return Reading{now, false};
    before = now;
  }
}

DeviceState CudaDevice::State() { return ClocksOf(UuidOf(api_, device_)); }

}  // namespace autotune::cuda
