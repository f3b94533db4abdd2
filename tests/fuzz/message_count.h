// Counts the messages that a process of the fuzzer has delivered, and tells their number at its end. For tests only.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace autotune::fuzz {

#ifdef AUTOTUNE_LIBFUZZER
// Tells at the end of the process how many messages were delivered.
struct MessageCount {
  ~MessageCount() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::fprintf(stderr, "%lld messages, %.0f in a second\n", static_cast<long long>(messages),
                 static_cast<double>(messages) / took.count());
  }
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  int64_t messages = 0;
};
inline void CountMessages(int messages) {
  static MessageCount count;
  count.messages += messages;
}
#else
inline void CountMessages(int /*messages*/) {}
#endif

}  // namespace autotune::fuzz
