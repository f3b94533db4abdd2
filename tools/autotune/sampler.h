// Sampler: notes, at regular intervals, the address at which the calling thread runs. So it finds the loops that take
// the time of a kernel, without hardware counters, which virtual machines often lack. One at a time in a process; used
// by the thread that it samples.
#pragma once
#include <csignal>
#include <cstdint>
#include <ctime>
#include <vector>

#include "support/result.h"

namespace autotune::tools {

class Sampler {
 public:
  // Starts to sample this thread every `microseconds`. An error if the system has no such timer.
  static Result<Sampler> Start(int microseconds);
  Sampler(Sampler&& other) noexcept;
  Sampler(const Sampler&) = delete;
  ~Sampler();
  // Stops, and returns the addresses in the order of time.
  std::vector<uintptr_t> Stop();

 private:
  Sampler() = default;
  timer_t timer_ = {};
  bool running_ = false;
  struct sigaction before_ = {};
};

// Returns the addresses that lie in the loaded library whose file has these bytes, as addresses in the file's symbols.
std::vector<uint64_t> AddressesIn(const std::vector<uintptr_t>& addresses, std::string_view library);

}  // namespace autotune::tools
