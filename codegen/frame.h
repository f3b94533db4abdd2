// Frames between a build client and its workers: a 32-bit little-endian length, then that many bytes of CBOR. A frame
// of more than 3 GiB is an error. One thread at a time per descriptor.
#pragma once
#include <optional>
#include <string>

#include "support/json.h"
#include "support/result.h"

namespace autotune {

Status WriteFrame(int fd, const Json& message);  // blocks
Result<std::optional<Json>> ReadFrame(int fd);   // blocks; nullopt: the other end closed between frames

// Collects the bytes of a stream as they arrive and returns complete frames.
class FrameReader {
 public:
  // Reads the bytes that have arrived, without waiting for more. Returns false if the other end is closed.
  Result<bool> Fill(int fd);
  Result<std::optional<Json>> Next();

 private:
  std::string buffer_;
};

}  // namespace autotune
