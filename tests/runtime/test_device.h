// For tests: TestDevice differs from the CPU as a GPU does. The host cannot access its addresses. Commands run later,
// on a thread of the device. After the error of a command every later one fails. Its images are shared objects for this
// machine ("elf"), whose functions have the signature of NAME.raw (runtime/abi.h).
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/device.h"
#include "runtime/kernel_context.h"

namespace autotune::test {

class TestDevice final : public Device {
 public:
  explicit TestDevice(int id = 0);
  ~TestDevice() override;

  // Numbers of commands so far.
  struct Counts {
    int copies_in = 0, copies_out = 0, copies_within = 0, launches = 0, images = 0;
  };
  Counts counts();
  // While held, the device runs no commands; they are queued.
  void Hold(bool hold);

  DLDevice dl() const override { return {kDLExtDev, id_}; }
  DeviceLimits limits() const override { return {.memory_bytes = int64_t{1} << 30, .threads_per_block = 1}; }
  Result<std::shared_ptr<void>> Allocate(int64_t bytes) override;
  Status Zero(void* to, int64_t bytes) override;
  Status CopyIn(void* to, const void* host, int64_t bytes) override;
  Status CopyOut(void* host, const void* from, int64_t bytes) override;
  Status CopyWithin(void* to, const void* from, int64_t bytes) override;
  Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view format, std::string_view bytes) override;
  Status Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) override;
  Status Synchronize() override;
  Status LastError() const override;

 private:
  using Command = std::function<Status()>;
  Status Enqueue(Command command);
  void RunQueue();
  // Returns the memory behind an address; an error if `bytes` from there on are not memory of this device.
  Result<char*> Memory(const void* address, int64_t bytes);

  const int id_;
  char* range_ = nullptr;  // reserved addresses that the process cannot access
  KernelContext context_{1};
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  char* next_ = nullptr;
  struct Block {
    std::shared_ptr<void> bytes;
    int64_t size = 0;
  };
  std::map<const char*, Block> memory_;  // keys: first addresses
  std::deque<Command> queue_;
  Status error_;
  Counts counts_;
  bool held_ = false, running_ = false, ends_ = false;
  std::thread thread_;
};

// Registers devices of this kind (device_api.ext_dev) and their modules. GetTestDevice returns the same device for the
// same number.
void RegisterTestDevices();
std::shared_ptr<TestDevice> GetTestDevice(int id = 0);

}  // namespace autotune::test
