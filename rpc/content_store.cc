#include "rpc/content_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "rpc/content_hash.h"
#include "support/clock.h"
#include "support/file.h"

namespace autotune::rpc {
namespace {

// Hides who owns a file, and keeps what a peer states out of paths.
std::string NameOf(const std::string& owner, const std::string& hash) { return ContentHash(owner + "/" + hash); }

constexpr int64_t kSecond = 1'000'000'000;

bool IsName(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

ContentStore::ContentStore(Options options) : options_(std::move(options)) {
  if (options_.folder.empty() || options_.most_bytes <= 0) return;
  const Status read = ReadFolder();
  stores_ = read.ok();
  if (!read) options_.on_trouble("packages are not kept: " + read.error().Text());
}

Status ContentStore::ReadFolder() {
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Err("cannot make ", options_.folder, ": ", std::strerror(errno));
  struct Found {
    int64_t used = 0;
    File file;
  };
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
    struct stat facts {};
    std::string name = entry.path().filename();
    if (lstat(entry.path().c_str(), &facts) != 0) continue;
    if (!S_ISREG(facts.st_mode) || !IsName(name)) {  // such as what a writer has left that was killed
      std::error_code ignored;
      std::filesystem::remove(entry.path(), ignored);
      continue;
    }
    found.push_back({facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec, {std::move(name), facts.st_size}});
  }
  if (error) return Err("cannot read ", options_.folder, ": ", error.message());
  std::ranges::stable_sort(found, {}, &Found::used);
  if (!found.empty()) latest_ = found.back().used;
  for (Found& one : found) Add(std::move(one.file));
  MakeRoom(0);
  return {};
}

void ContentStore::Add(File file) {
  bytes_ += file.bytes;
  files_.push_back(std::move(file));
  by_name_[files_.back().name] = std::prev(files_.end());
}

void ContentStore::Remove(std::list<File>::iterator file) {
  unlink(PathOf(file->name).c_str());
  bytes_ -= file->bytes;
  by_name_.erase(file->name);
  files_.erase(file);
}

void ContentStore::MakeRoom(int64_t bytes) {
  while (!files_.empty() && bytes_ + bytes > options_.most_bytes) Remove(files_.begin());
}

Blob ContentStore::Find(const std::string& owner, const std::string& hash) {
  const auto found = by_name_.find(NameOf(owner, hash));
  if (found == by_name_.end()) return nullptr;
  const auto file = found->second;
  Result<std::string> bytes = ReadFile(PathOf(file->name));
  if (bytes.ok()) CipherByHash(*bytes, hash);
  if (!bytes || ContentHash(*bytes) != hash) {
    Remove(file);
    return nullptr;
  }
  files_.splice(files_.end(), files_, file);
  Stamp(file->name);
  return MakeBlob(std::move(*bytes));
}

void ContentStore::Keep(const std::string& owner, const std::string& hash, std::string_view content) {
  const auto size = static_cast<int64_t>(content.size());
  if (!stores_ || size > options_.most_bytes) return;
  std::string name = NameOf(owner, hash);
  if (const auto present = by_name_.find(name); present != by_name_.end()) Remove(present->second);
  MakeRoom(size);
  std::string bytes(content);  // a runner of a GPU may read all files, and must learn nothing from these
  CipherByHash(bytes, hash);
  if (Status written = ReplaceFile(PathOf(name), bytes); !written) {
    stores_ = false;
    options_.on_trouble("packages are not kept any more: " + written.error().Text());
    return;
  }
  Stamp(name);
  Add({std::move(name), size});
}

// Notes that the file is the most recently used one, for the next start.
void ContentStore::Stamp(const std::string& name) {
  latest_ = std::max(latest_ + 1, WallMillis() * (kSecond / 1000));
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                            {.tv_sec = latest_ / kSecond, .tv_nsec = latest_ % kSecond}};
  utimensat(AT_FDCWD, PathOf(name).c_str(), times, 0);
}

}  // namespace autotune::rpc
