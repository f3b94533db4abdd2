#include "tests/runtime/test_device.h"

#include <sys/mman.h>

#include <cstring>

#include "runtime/artifact.h"
#include "runtime/byte_stream.h"
#include "runtime/device_module.h"
#include "runtime/registry.h"

namespace autotune::test {
namespace {

constexpr int64_t kRangeBytes = int64_t{1} << 33;
constexpr int64_t kAlignment = 256;

using Function = int32_t (*)(AtContext*, void* const* args);

struct ElfImage final : DeviceImage {
  std::shared_ptr<const Artifact> artifact;
  DevicePtr device;
  Result<const void*> Entry(std::string_view name) const override {
    void* symbol = artifact->Symbol(std::string(name));
    if (!symbol) return Err("the image has no function '", name, "'");
    return static_cast<const void*>(symbol);
  }
};

}  // namespace

TestDevice::TestDevice(int id) : id_(id) {
  void* range = mmap(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(range != MAP_FAILED);
  range_ = next_ = static_cast<char*>(range);
  thread_ = std::thread([this] { RunQueue(); });
}

TestDevice::~TestDevice() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    held_ = false;
  }
  changed_.notify_all();
  thread_.join();
  munmap(range_, kRangeBytes);
}

TestDevice::Counts TestDevice::counts() {
  std::lock_guard lock(mutex_);
  return counts_;
}

void TestDevice::Hold(bool hold) {
  std::lock_guard lock(mutex_);
  held_ = hold;
  changed_.notify_all();
}

void TestDevice::RunQueue() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return (ends_ || !queue_.empty()) && !held_; });
    if (queue_.empty()) return;
    Command command = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    Status status = command();
    command = nullptr;
    lock.lock();
    running_ = false;
    if (!status.ok() && error_.ok()) error_ = std::move(status);
    changed_.notify_all();
  }
}

Status TestDevice::Enqueue(Command command) {
  std::lock_guard lock(mutex_);
  if (!error_.ok()) return error_;
  queue_.push_back([this, command = std::move(command)]() -> Status {
    if (Status failed = LastError(); !failed.ok()) return failed;
    return command();
  });
  changed_.notify_all();
  return {};
}

Status TestDevice::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !running_; });
  return error_;
}

Status TestDevice::LastError() const {
  std::lock_guard lock(mutex_);
  return error_;
}

Result<char*> TestDevice::Memory(const void* address, int64_t bytes) {
  std::lock_guard lock(mutex_);
  auto* at = static_cast<const char*>(address);
  auto place = memory_.upper_bound(at);
  if (place != memory_.begin()) {
    --place;
    const int64_t offset = at - place->first;
    if (offset + bytes <= place->second.size) return static_cast<char*>(place->second.bytes.get()) + offset;
  }
  return Err("not an address of ", DeviceText(dl()), " with ", bytes, " bytes behind it");
}

Result<std::shared_ptr<void>> TestDevice::Allocate(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!error_.ok()) return error_.error();
  const int64_t size = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes < 0 || next_ + size > range_ + kRangeBytes)
    return OutOfMemory("no ", bytes, " bytes on ", DeviceText(dl()));
  char* address = std::exchange(next_, next_ + size);
  memory_[address] = {AllocateAligned(size), size};
  std::memset(memory_[address].bytes.get(), 0xee, size);
  return std::shared_ptr<void>(address, [this, device = shared_from_this()](void* p) {
    // Frees after the commands that were given before, even if the device has failed.
    std::lock_guard lock(mutex_);
    queue_.push_back([this, p]() -> Status {
      std::lock_guard inner(mutex_);
      memory_.erase(static_cast<char*>(p));
      return {};
    });
    changed_.notify_all();
  });
}

Status TestDevice::Zero(void* to, int64_t bytes) {
  char* memory = TRY(Memory(to, bytes));
  return Enqueue([=]() -> Status { return std::memset(memory, 0, bytes), Status(); });
}

Status TestDevice::CopyIn(void* to, const void* host, int64_t bytes) {
  char* memory = TRY(Memory(to, bytes));
  if (Memory(host, bytes).ok()) return Err("CopyIn from an address of the device itself");
  std::string staged(static_cast<const char*>(host), bytes);
  TRY(Enqueue([=]() -> Status { return std::memcpy(memory, staged.data(), bytes), Status(); }));
  std::lock_guard lock(mutex_);
  ++counts_.copies_in;
  return {};
}

Status TestDevice::CopyOut(void* host, const void* from, int64_t bytes) {
  char* memory = TRY(Memory(from, bytes));
  if (Memory(host, bytes).ok()) return Err("CopyOut to an address of the device itself");
  TRY(Enqueue([=]() -> Status { return std::memcpy(host, memory, bytes), Status(); }));
  TRY(Synchronize());
  std::lock_guard lock(mutex_);
  ++counts_.copies_out;
  return {};
}

Status TestDevice::CopyWithin(void* to, const void* from, int64_t bytes) {
  char *into = TRY(Memory(to, bytes)), *memory = TRY(Memory(from, bytes));
  TRY(Enqueue([=]() -> Status { return std::memcpy(into, memory, bytes), Status(); }));
  std::lock_guard lock(mutex_);
  ++counts_.copies_within;
  return {};
}

Result<std::shared_ptr<const DeviceImage>> TestDevice::LoadImage(std::string_view format, std::string_view bytes) {
  if (format != "elf") return Err(DeviceText(dl()), " takes images of format elf, not ", format);
  auto image = std::make_shared<ElfImage>();
  image->artifact = TRY(Artifact::FromBytes(bytes));
  image->device = shared_from_this();
  std::lock_guard lock(mutex_);
  ++counts_.images;
  return std::shared_ptr<const DeviceImage>(std::move(image));
}

Status TestDevice::Launch(const void* entry, const LaunchGeometry& geometry, std::span<void* const> args) {
  for (int64_t extent : geometry.block) {
    if (extent != 1) return Err("a block of more than one thread");
  }
  std::vector<void*> memory;
  for (void* address : args) memory.push_back(address ? TRY(Memory(address, 1)) : nullptr);
  auto function = reinterpret_cast<Function>(const_cast<void*>(entry));
  TRY(Enqueue([this, function, memory]() -> Status {
    if (function(context_.abi(), memory.data()) == 0) return {};
    return context_.TakeError("a launch on " + DeviceText(dl()) + " failed");
  }));
  std::lock_guard lock(mutex_);
  ++counts_.launches;
  return {};
}

std::shared_ptr<TestDevice> GetTestDevice(int id) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::shared_ptr<TestDevice>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<TestDevice>& device = devices[id];
  if (!device || !device->LastError().ok()) device = std::make_shared<TestDevice>(id);
  return device;
}

void RegisterTestDevices() {
  Registry& registry = Registry::Global();
  constexpr bool kReplace = true;
  CHECK(registry
            .Add("device_api.ext_dev", PackedFunc::Of([](int id) { return Value(ObjectRef(GetTestDevice(id))); }),
                 kReplace)
            .ok());
  CHECK(registry
            .Add("runtime.module.loadbinary_ext_dev", PackedFunc::Of([](ObjectRef reader) -> Result<Module> {
                   return LoadDeviceModule("ext_dev", *TRY(ReaderOf(reader)));
                 }),
                 kReplace)
            .ok());
}

}  // namespace autotune::test
