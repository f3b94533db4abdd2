// MemoryWatch: looks at the memory of this process whenever it has worked for a while. It counts the CPU time of all
// threads of the process, so an idle process never wakes for it, and one that is flooded looks often. May be made and
// destroyed on the thread of its loop only.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "support/loop.h"

namespace autotune::rpc {

class MemoryWatch {
 public:
  // Calls `look` on the loop's thread after each 10 ms of CPU time.
  MemoryWatch(Loop& loop, std::function<void()> look);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;

  // Returns the bytes that the process has allocated and not freed. 0 in sanitizer builds. Takes up to a millisecond,
  // as Freed does: the allocator walks through all pieces that are free.
  static int64_t Allocated();
  struct Size {
    // Bytes of addresses that the process has, allocated or not.
    int64_t addresses = INT64_MAX;
    // Bytes of memory that the process occupies, but for files that it has mapped, such as SharedMemory. Memory that
    // was allocated but never written is not among them.
    int64_t resident = INT64_MAX;
  };
  static Size SizeOfProcess();  // takes microseconds; the largest numbers if the system does not say it
  // Returns the bytes that were freed, but that the process has not given back to the system.
  static int64_t Freed();
  static void Return();  // gives memory that has been freed back to the system

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace autotune::rpc
