#include "package/prepared_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "package/cache_folder.h"
#include "support/cpu_features.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/integer.h"
#include "support/state_folder.h"
#include "support/unique_fd.h"

namespace autotune {
namespace {

constexpr char kMagic[8] = {'A', 'T', 'P', 'R', 'E', 'P', '0', '1'};
constexpr char kSuffix[] = ".prepared";
constexpr int64_t kDataAlignment = int64_t{2} << 20;  // of the data, in the file and in memory
constexpr int64_t kMostIndexBytes = int64_t{256} << 20;

// The begin of a file. Then follow the key and the index, and at the next multiple of kDataAlignment the data.
struct Header {
  char magic[8];
  int64_t key_bytes, index_bytes, data_bytes;
  uint32_t crc;  // of the key and the index
  uint32_t zero;

  int64_t DataBegin() const {
    return AlignUp<int64_t>(static_cast<int64_t>(sizeof *this) + key_bytes + index_bytes, kDataAlignment);
  }
};

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Returns true if the open file is one that only this user can have written.
bool IsOwn(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0 &&
         info.st_nlink == 1;
}

bool ReadFully(int fd, char* to, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, to, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n, bytes -= n, offset += n;
  }
  return true;
}

// Reads and checks the header and the index. Returns the index.
std::optional<std::string> ReadIndex(int fd, int64_t file_bytes, const std::string& key, Header& header) {
  if (!ReadFully(fd, reinterpret_cast<char*>(&header), sizeof header, 0)) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (header.key_bytes != static_cast<int64_t>(key.size())) return std::nullopt;
  if (header.index_bytes < 0 || header.index_bytes > kMostIndexBytes || header.data_bytes < 0) return std::nullopt;
  if (file_bytes - header.data_bytes != header.DataBegin()) return std::nullopt;
  std::string text(key.size() + static_cast<size_t>(header.index_bytes), '\0');
  if (!ReadFully(fd, text.data(), static_cast<int64_t>(text.size()), sizeof header)) return std::nullopt;
  if (Crc32(text) != header.crc || !text.starts_with(key)) return std::nullopt;
  return text.substr(key.size());
}

// Maps the data at an address that is a multiple of kDataAlignment. Returns null if that fails.
std::shared_ptr<void> MapData(int fd, const Header& header) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(header.data_bytes, 1));
  void* const reserved = mmap(nullptr, bytes + kDataAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  auto* const data = reinterpret_cast<char*>(AlignUp<uintptr_t>(begin, kDataAlignment));
  const size_t reserved_bytes = bytes + kDataAlignment;
  std::shared_ptr<void> memory(data, [reserved, reserved_bytes](void*) { munmap(reserved, reserved_bytes); });
  if (header.data_bytes > 0 &&
      mmap(data, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, header.DataBegin()) == MAP_FAILED)
    return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // where the file system has them
  return memory;
}

// Writes the pieces in blocks of kDataAlignment. The kernel's page cache has huge pages where a write fills them.
Status WriteInBlocks(int fd, const std::vector<std::string_view>& pieces, const std::string& path) {
  std::string block;
  block.reserve(kDataAlignment);
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const size_t bytes = std::min(piece.size(), static_cast<size_t>(kDataAlignment) - block.size());
      block += piece.substr(0, bytes);
      piece.remove_prefix(bytes);
      if (block.size() < static_cast<size_t>(kDataAlignment)) continue;
      TRY(WriteAll(fd, block, path));
      block.clear();
    }
  }
  return WriteAll(fd, block, path);
}

// A file's time says when it was used last, to the hour.
void Touch(int fd, const struct stat& info) {
  constexpr int64_t kHour = 3600;
  if (std::time(nullptr) - info.st_mtim.tv_sec > kHour) futimens(fd, nullptr);
}

}  // namespace

std::optional<std::string> PreparedKeyOf(const std::string& path) {
  constexpr int64_t kSettled = 100'000'000;  // nanoseconds; the kernel's clock for files has ticks of up to 10 ms
  struct stat info {};
  timespec now{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || clock_gettime(CLOCK_REALTIME, &now) != 0)
    return std::nullopt;
  if (Nanoseconds(now) - Nanoseconds(info.st_ctim) < kSettled) return std::nullopt;
  std::string key = "prepared 1";  // the version of header, index and data
  for (int64_t number : {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
                         static_cast<int64_t>(info.st_size), Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim)})
    key += " " + std::to_string(number);
  for (const std::string& feature : HostCpuFeatures()) key += " " + feature;
  return key;
}

Result<PreparedCache> PreparedCache::Open(const std::string& folder, int64_t most_bytes) {
  TRY(MakePrivateFolder(folder));
  return PreparedCache(folder, most_bytes);
}

Result<PreparedCache> PreparedCache::OfUser() {
  const std::string folder = UserCacheFolder();
  TRY(MakePrivateFolder(folder));
  return Open(folder + "/prepared");
}

std::string PreparedCache::PathOf(const std::string& key) const {
  return folder_ + "/" + HashBytes128(key).Hex() + kSuffix;
}

std::optional<MappedPrepared> PreparedCache::Find(const std::string& key) const {
  const std::string path = PathOf(key);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!fd) {
    if (errno == ELOOP) unlink(path.c_str());
    return std::nullopt;
  }
  Header header{};
  std::optional<std::string> index;
  if (fstat(fd.get(), &info) == 0 && IsOwn(info)) index = ReadIndex(fd.get(), info.st_size, key, header);
  if (!index) {
    unlink(path.c_str());
    return std::nullopt;
  }
  std::shared_ptr<void> memory = MapData(fd.get(), header);
  if (!memory) return std::nullopt;
  Touch(fd.get(), info);
  const std::string_view data(static_cast<const char*>(memory.get()), static_cast<size_t>(header.data_bytes));
  return MappedPrepared{std::move(*index), data, std::move(memory)};
}

Status PreparedCache::Store(const std::string& key, const std::string& index,
                            const std::vector<std::string_view>& pieces) const {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = static_cast<int64_t>(key.size());
  header.index_bytes = static_cast<int64_t>(index.size());
  for (const std::string_view piece : pieces) header.data_bytes += static_cast<int64_t>(piece.size());
  header.crc = Crc32(key + index);
  const int64_t bytes = header.DataBegin() + header.data_bytes;
  if (header.index_bytes > kMostIndexBytes || bytes > most_bytes_ / 4) return Err("it is too large for the cache");
  struct statvfs disk {};
  if (statvfs(folder_.c_str(), &disk) != 0 || static_cast<int64_t>(disk.f_bavail * disk.f_frsize) / 2 < bytes)
    return Err("the disk of ", folder_, " has too little space left");
  // The lock ends with the descriptor. Of processes that start together one makes the file; the others do not wait.
  const UniqueFd folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
    return Err("another process makes a file in ", folder_, " now");
  const std::string path = PathOf(key);
  TRY(ReplaceFile(path, [&](int fd) -> Status {
    if (fchmod(fd, 0600) != 0) return Err(std::strerror(errno));
    std::string begin(reinterpret_cast<const char*>(&header), sizeof header);
    begin += key + index;
    begin.resize(static_cast<size_t>(header.DataBegin()));
    TRY(WriteAll(fd, begin, path));
    TRY(WriteInBlocks(fd, pieces, path));
    // The data must be on the disk before the file gets its name, since nothing checks them later.
    if (fdatasync(fd) != 0) return Err("cannot write ", path, ": ", std::strerror(errno));
    return {};
  }));
  Prune(path);
  return {};
}

// Removes the files that were not used for longest until the rest fits, but not `keep`.
void PreparedCache::Prune(const std::string& keep) const {
  namespace fs = std::filesystem;
  struct File {
    fs::file_time_type time;
    int64_t bytes;
    std::string path;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string path = entry.path().string();
    struct stat info {};
    if (!path.ends_with(kSuffix) || lstat(path.c_str(), &info) != 0) continue;
    total += info.st_size;
    if (path != keep) files.push_back({fs::last_write_time(entry.path(), error), info.st_size, path});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (total <= most_bytes_) return;
    unlink(file.path.c_str());
    total -= file.bytes;
  }
}

}  // namespace autotune
