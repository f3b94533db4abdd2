// Members of archives that libarchive writes. Thread-safe for different archives.
#pragma once
#include <string>
#include <string_view>

#include "support/result.h"

struct archive;

namespace autotune {

// Returns the cause of a failed write: that of the system if it has one, which libarchive's own text leaves out.
std::string ArchiveWriteError(archive* out);

// Writes one file into an archive that is open for writing. In a stream without members, `name` has no effect.
Status WriteMember(archive* out, const std::string& name, std::string_view bytes);

}  // namespace autotune
