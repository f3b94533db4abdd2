// Runs independent work on all cores.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "support/cpus.h"
#include "support/result.h"

namespace autotune {

// Calls f(0) ... f(n - 1) on up to `threads` threads (0: one per CPU), including the caller's. After all calls have
// ended it throws the first exception or else returns the first error, in the order of the indices.
inline Status ForEachInParallel(size_t n, int threads, const std::function<Status(size_t)>& f) {
  std::vector<Status> results(n);
  std::vector<std::exception_ptr> failures(n);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n;) {
      try {
        results[i] = f(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t wanted = static_cast<size_t>(threads > 0 ? threads : AvailableCpus());
    for (size_t i = 1; i < std::min(wanted, n); ++i) helpers.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (Status& result : results) TRY(std::move(result));
  return {};
}

}  // namespace autotune
