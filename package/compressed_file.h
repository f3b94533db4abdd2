// Files of bytes compressed with zstd, as `zstd` reads and writes them. Stateless. Not packages: package/package.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// Writes to a temporary file beside `path`, then renames: an interrupted write leaves nothing half done. Errors name
// the file.
Status WriteCompressedFile(const std::string& path, std::string_view bytes);

// The bytes before compression; a file that is not compressed is read as it is. Errors name the file: it cannot be
// read, is damaged, or holds more than `limit` bytes.
Result<std::string> ReadCompressedFile(const std::string& path, int64_t limit = int64_t{1} << 30);

}  // namespace autotune
