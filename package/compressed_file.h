// Files of bytes compressed by zstd, compatible with the program `zstd`. Stateless. Not packages: package/package.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// An interrupted write leaves no partial file (ReplaceFile). Errors name the file.
Status WriteCompressedFile(const std::string& path, std::string_view bytes);

// Returns the decompressed bytes, or the file's own bytes if it is not compressed. Errors name the file: it cannot be
// read, is damaged, or holds more than `limit` bytes.
Result<std::string> ReadCompressedFile(const std::string& path, int64_t limit = int64_t{1} << 30);

}  // namespace autotune
