#include "archives/npz.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "archives/archive_member.h"
#include "runtime/npy.h"
#include "support/file.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr std::string_view kExtension = ".npy";

struct FreeArchive {
  void operator()(archive* a) const { archive_free(a); }
};
using ArchivePtr = std::unique_ptr<archive, FreeArchive>;

// Returns the largest total size of the members of a file. Deflate expands bytes at most 1032 times.
int64_t MostBytesOf(const std::string& path) {
  constexpr int64_t kTimes = 1032, kMost = int64_t{1} << 40;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  return error || size > kMost / kTimes ? kMost : static_cast<int64_t>(size) * kTimes;
}

Result<std::string> ReadMember(archive* in, int64_t& left) {
  std::string bytes;
  char chunk[1 << 16];
  for (;;) {
    const la_ssize_t n = archive_read_data(in, chunk, sizeof chunk);
    if (n < 0) return Err(archive_error_string(in));
    if (n == 0) return bytes;
    left -= n;
    if (left < 0) return Err("it holds more bytes than a file of this size can");
    bytes.append(chunk, static_cast<size_t>(n));
  }
}

Result<NamedTensors> ReadArrays(const std::string& path) {
  ArchivePtr in(archive_read_new());
  archive_read_support_format_zip(in.get());
  if (archive_read_open_filename(in.get(), path.c_str(), size_t{1} << 20) != ARCHIVE_OK)
    return Err(archive_error_string(in.get()));
  NamedTensors arrays;
  std::set<std::string> names;
  int64_t left = MostBytesOf(path);
  archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(in.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK) return Err(archive_error_string(in.get()));
    const char* member = archive_entry_pathname(entry);
    if (!member) return Err("a member has no name");
    std::string name = member;
    if (!name.ends_with(kExtension)) return Err("member ", OneLine(name), " is not a .npy file");
    name.resize(name.size() - kExtension.size());
    if (!names.insert(name).second) return Err("the array ", OneLine(name), " occurs twice");
    const std::string bytes = TRY_NOTE(ReadMember(in.get(), left), "member " + OneLine(member));
    arrays.emplace_back(name, TRY_NOTE(ParseNpy(bytes), "member " + OneLine(member)));
  }
  return arrays;
}

Status WriteMembers(const NamedTensors& arrays, int fd) {
  ArchivePtr out(archive_write_new());
  std::set<std::string> names;
  if (archive_write_set_format_zip(out.get()) != ARCHIVE_OK ||
      archive_write_zip_set_compression_store(out.get()) != ARCHIVE_OK ||
      archive_write_open_fd(out.get(), fd) != ARCHIVE_OK)
    return Err(ArchiveWriteError(out.get()));
  for (const auto& [name, tensor] : arrays) {
    if (!names.insert(name).second) return Err("two arrays are called ", OneLine(name));
    const std::string bytes = TRY_NOTE(NpyBytes(tensor), "array " + OneLine(name));
    TRY(WriteMember(out.get(), name + std::string(kExtension), bytes));
  }
  if (archive_write_close(out.get()) != ARCHIVE_OK) return Err(ArchiveWriteError(out.get()));
  return {};
}

}  // namespace

Result<NamedTensors> ReadNpz(const std::string& path) { return TRY_NOTE(ReadArrays(path), "while reading " + path); }

Status WriteNpz(const std::string& path, const NamedTensors& arrays) {
  return ReplaceFile(path, [&](int fd) -> Status {
    TRY_NOTE(WriteMembers(arrays, fd), "while writing " + path);
    return {};
  });
}

}  // namespace autotune
