// The kernels of the driver in driver.cc: host functions, found by the names of entries. An access to a wrong address
// is a fault.
#pragma once
#include <unistd.h>

#include <fstream>

#include "tests/runtime/fake_cuda/state.h"

namespace fake_cuda {

inline Code Double(const Launch& l) {
  const size_t n = size_t{l.blocks} * l.threads;
  float *x = l.Floats(0, n), *y = l.Floats(1, n);
  if (!x || !y) return kIllegalAddress;
  for (size_t i = 0; i < n; ++i) y[i] = 2 * x[i];
  return kOk;
}
inline Code Triple(const Launch& l) {
  const size_t n = size_t{l.blocks} * l.threads;
  float *x = l.Floats(0, n), *y = l.Floats(1, n);
  if (!x || !y) return kIllegalAddress;
  for (size_t i = 0; i < n; ++i) y[i] = 3 * x[i];
  return kOk;
}
inline Code Shift(const Launch& l) {
  const size_t n = size_t{l.blocks} * l.threads;
  float *x = l.Floats(0, n), *p = l.Floats(1, n), *y = l.Floats(2, n);
  if (!x || !p || !y) return kIllegalAddress;
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + p[i];
  return kOk;
}
// Reverses the elements of each block through shared memory.
inline Code Reversed(const Launch& l) {
  const size_t n = size_t{l.blocks} * l.threads;
  float *x = l.Floats(0, n), *y = l.Floats(1, n);
  if (!x || !y || l.shared_bytes < 4 * l.threads) return kIllegalAddress;
  for (size_t i = 0; i < n; ++i) y[i] = x[i / l.threads * l.threads + l.threads - 1 - i % l.threads];
  return kOk;
}
inline Code Illegal(const Launch&) { return kIllegalAddress; }
inline Code Unknown(const Launch&) { return kUnknown; }
inline Code Hang(const Launch&) {
  for (;;) pause();
}
inline Code FallOffTheBus(const Launch&) {
  auto file = D().words.find("lost");
  if (file != D().words.end()) std::ofstream(file->second) << "lost\n";
  return kUnknown;
}
inline Code BitFlip(const Launch&) { return static_cast<Code>(214); }
// Tries to create a process, which a runner's filter must refuse. Faults if it succeeds.
inline Code Fork(const Launch& l) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return child > 0 ? kIllegalAddress : Double(l);
}

// Takes 20 ms of the GPU and no time of the host's cores.
inline Code Nap(const Launch& l) {
  usleep(20000);
  l.gpu->now_ns += 20'000'000;
  return Double(l);
}
// The kernel by which the runtime reads the clock. It takes 0.5 ms, longer while the clock rises or wobbles.
inline Code Reference(const Launch& l) {
  if (!l.Floats(0, 1)) return kIllegalAddress;
  const int64_t run = l.gpu->references++, ramp = D().Number("ramp", 0), wobble = D().Number("wobble", 0);
  l.gpu->now_ns += 500'000 + (run < ramp ? 50'000 * (ramp - run) : 0);
  if (run >= D().Number("step", run + 1)) l.gpu->now_ns += 50'000;
  if (wobble > 0) l.gpu->now_ns += 50'000 * (run / wobble % 2);
  return kOk;
}

struct Row {
  const char* name;
  Kernel kernel;
  size_t args;
};
inline constexpr Row kKernels[] = {{"twice", Double, 2},
                                   {"thrice", Triple, 2},
                                   {"shift_prepare", Double, 2},
                                   {"shift", Shift, 3},
                                   {"reversed", Reversed, 2},
                                   {"illegal", Illegal, 2},
                                   {"unknown", Unknown, 2},
                                   {"hang", Hang, 2},
                                   {"falls_off_the_bus", FallOffTheBus, 2},
                                   {"bit_flip", BitFlip, 2},
                                   {"forks", Fork, 2},
                                   {"naps", Nap, 2},
                                   {"autotune_reference", Reference, 1}};

}  // namespace fake_cuda
