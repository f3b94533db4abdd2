#include "rpc/device_probe.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "support/clock.h"

namespace autotune::rpc {
namespace {

constexpr size_t kNumbers = 64 << 10;  // of the pattern

Status ProbeCpu() {
  constexpr double kCpuMs = 20, kLongest = 0.2;  // [chosen]
  const double begin = SteadySeconds(), cpu = CpuMilliseconds();
  volatile double sum = 0;
  while (CpuMilliseconds() < cpu + kCpuMs) {
    if (SteadySeconds() - begin > kLongest) return Err("this process gets too little processor time");
    for (int i = 0; i < 10000; ++i) sum = sum + 1;
  }
  return {};
}

Status RunDoubling(Device& device, void* to, void* from) {
  constexpr std::string_view kSource =
      "kernel void twice(global const float* x, global float* y) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }";
  const auto image = TRY(device.LoadImage("cl", kSource));
  void* const arguments[] = {from, to};
  constexpr int64_t kThreads = 64;
  TRY(device.Launch(TRY(image->Entry("twice")), {.grid = {kNumbers / kThreads, 1, 1}, .block = {kThreads, 1, 1}},
                    arguments));
  return device.Synchronize();
}

}  // namespace

Status ProbeDevice(Device* device) {
  if (!device) return ProbeCpu();
  std::vector<float> numbers(kNumbers), back(kNumbers);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto bytes = static_cast<int64_t>(kNumbers * sizeof(float));
  const std::shared_ptr<void> from = TRY(device->Allocate(bytes)), to = TRY(device->Allocate(bytes));
  TRY(device->CopyIn(from.get(), numbers.data(), bytes));
  if (device->dl().device_type == kDLOpenCL) {
    TRY(RunDoubling(*device, to.get(), from.get()));
    for (float& number : numbers) number *= 2;
  } else {
    TRY(device->CopyWithin(to.get(), from.get(), bytes));
    TRY(device->Settle());
  }
  TRY(device->CopyOut(back.data(), to.get(), bytes));
  if (back != numbers) return Err("a small kernel gives wrong results");
  return {};
}

}  // namespace autotune::rpc
