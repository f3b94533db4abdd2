// Loop: the event loop of one thread: readable and writable descriptors, timers, signals, and functions posted by other
// threads. Implemented by Boost.Asio. Everything but Post and Stop belongs to the thread that calls Run
// (before Run: to the thread that sets the loop up). Not a thread pool: a callback that takes long delays all others.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace autotune {

class Loop {
 public:
  // A watch of a descriptor, timer or signal. Destroying it ends the watch; the callback is never called afterwards. It
  // may be destroyed inside its own callback.
  class Handle {
   public:
    virtual ~Handle() = default;
  };
  using Watch = std::unique_ptr<Handle>;

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;

  void Run();                          // returns after Stop
  void Stop();                         // any thread
  void Post(std::function<void()> f);  // any thread; runs inside Run, in the order of the calls

  // Calls f as long as the descriptor is readable (writable), end of file and errors included. The loop works on a
  // duplicate, so end the watch before closing the descriptor; otherwise the peer does not see the end. If no
  // descriptor is left for the duplicate, the loop polls every 10 ms.
  Watch OnReadable(int fd, std::function<void()> f);
  Watch OnWritable(int fd, std::function<void()> f);
  Watch Every(int64_t milliseconds, std::function<void()> f);  // first call after one interval
  Watch After(int64_t milliseconds, std::function<void()> f);  // once
  Watch OnSignals(const std::vector<int>& signals, std::function<void(int)> f);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
