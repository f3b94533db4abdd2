#include "rpc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace autotune::rpc {
namespace {

#ifndef F_SEAL_FUTURE_WRITE
constexpr int F_SEAL_FUTURE_WRITE = 0x10;  // missing in the headers of older systems
#endif

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : file_(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(bytes) {
  void* mapped = MAP_FAILED;
  if (file_ && ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0)
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  constexpr int kSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (mapped == MAP_FAILED || fcntl(file_.get(), F_ADD_SEALS, kSeals) != 0) file_.Reset();
  if (mapped == MAP_FAILED)
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(mapped);
}

SharedMemory::~SharedMemory() { munmap(data_, size_); }

Result<std::shared_ptr<const char>> SharedMemory::Map(const UniqueFd& file, size_t bytes) {
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0 || static_cast<size_t>(facts.st_size) < bytes)
    return Err("the file of shared memory is too small");
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return Err("cannot map shared memory: ", std::strerror(errno));
  return std::shared_ptr<const char>(static_cast<const char*>(mapped),
                                     [mapped, bytes](const char*) { munmap(mapped, bytes); });
}

Blob PartOf(const std::shared_ptr<const SharedMemory>& memory, std::string_view bytes) {
  return MakeBlob(bytes, memory, memory->descriptor() >= 0 ? memory.get() : nullptr);
}

std::shared_ptr<SharedMemory> MemoryShelf::Take() {
  std::unique_ptr<SharedMemory> memory;
  {
    const std::lock_guard lock(mutex_);
    memory = std::move(kept_);
  }
  if (!memory) memory = std::make_unique<SharedMemory>(bytes_);
  return {memory.release(), [shelf = shared_from_this()](SharedMemory* unused) {
            std::unique_ptr<SharedMemory> returned(unused);
            const std::lock_guard lock(shelf->mutex_);
            if (!shelf->kept_) shelf->kept_ = std::move(returned);
          }};
}

}  // namespace autotune::rpc
