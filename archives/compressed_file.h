// Reads and writes files of bytes compressed by zstd, compatible with the program `zstd`. Stateless. Packages are in
// package/package.h.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/result.h"

namespace autotune {

// Writes a file. An interrupted write leaves no partial file (ReplaceFile). Errors name the file.
Status WriteCompressedFile(const std::string& path, std::string_view bytes);

// Returns the decompressed bytes, or the file's own bytes if it is not compressed. Returns an error that names the file
// if it cannot be read, is damaged, or holds more than `limit` decompressed bytes.
Result<std::string> ReadCompressedFile(const std::string& path, int64_t limit = int64_t{1} << 30);

}  // namespace autotune
