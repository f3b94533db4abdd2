#include "archives/archive_member.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace autotune {

std::string ArchiveWriteError(archive* out) {
  const int error = archive_errno(out);
  return error > 0 ? std::strerror(error) : archive_error_string(out);
}

Status WriteMember(archive* out, const std::string& name, std::string_view bytes) {
  std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), static_cast<int64_t>(bytes.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  if (archive_write_header(out, entry.get()) != ARCHIVE_OK) return Err(ArchiveWriteError(out));
  while (!bytes.empty()) {  // one call takes less than 2 GiB
    const la_ssize_t n = archive_write_data(out, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n <= 0) return Err(ArchiveWriteError(out));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace autotune
