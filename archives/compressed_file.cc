#include "archives/compressed_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "archives/archive_member.h"
#include "support/file.h"
#include "support/hint.h"

namespace autotune {
namespace {

constexpr char kLevel[] = "19";  // zstd's highest ordinary level, since files are written once and kept

struct FreeStream {
  archive* stream;
  ~FreeStream() { archive_free(stream); }
};

// Compresses `bytes` into the file `fd`. `path` is its name in errors.
Status WriteStream(archive* out, int fd, const std::string& path, std::string_view bytes) {
  auto failed = [&] { return Err("cannot write ", path, ": ", ArchiveWriteError(out)); };
  if (archive_write_add_filter_zstd(out) != ARCHIVE_OK ||
      archive_write_set_filter_option(out, "zstd", "compression-level", kLevel) != ARCHIVE_OK ||
      archive_write_set_format_raw(out) != ARCHIVE_OK || archive_write_open_fd(out, fd) != ARCHIVE_OK)
    return failed();
  if (const Status written = WriteMember(out, "", bytes); !written.ok())
    return Prefixed("cannot write " + path + ": ", written.error());
  if (archive_write_close(out) != ARCHIVE_OK) return failed();
  return {};
}

}  // namespace

Status WriteCompressedFile(const std::string& path, std::string_view bytes) {
  return ReplaceFile(path, [&](int fd) {
    FreeStream out{archive_write_new()};
    return WriteStream(out.stream, fd, path, bytes);
  });
}

Result<std::string> ReadCompressedFile(const std::string& path, int64_t limit) {
  FreeStream in{archive_read_new()};
  auto failed = [&] { return Err("cannot read ", path, ": ", archive_error_string(in.stream)); };
  archive_read_support_filter_zstd(in.stream);
  archive_read_support_format_raw(in.stream);
  archive_read_support_format_empty(in.stream);
  if (archive_read_open_filename(in.stream, path.c_str(), size_t{1} << 20) != ARCHIVE_OK) return failed();
  archive_entry* entry = nullptr;
  int header = archive_read_next_header(in.stream, &entry);
  if (header == ARCHIVE_EOF) return std::string();
  if (header != ARCHIVE_OK) return failed();
  std::string bytes;
  char chunk[1 << 16];
  for (;;) {
    la_ssize_t n = archive_read_data(in.stream, chunk, sizeof chunk);
    if (n < 0) return failed();
    if (n == 0) return bytes;
    if (static_cast<int64_t>(bytes.size()) + n > limit)
      return Err("cannot read ", path, ": it holds more than ", limit, " bytes");
    bytes.append(chunk, static_cast<size_t>(n));
  }
}

}  // namespace autotune
