// Frames between a build client and its workers: a 32-bit little-endian length, then CBOR. Both ends are our own
// processes on one host; lengths are limited all the same. Not thread-safe per descriptor.
#pragma once
#include <optional>
#include <string>

#include "support/json.h"
#include "support/result.h"

namespace autotune {

Status WriteFrame(int fd, const Json& message);  // blocks
Result<std::optional<Json>> ReadFrame(int fd);   // blocks; nullopt: the other end closed between frames

// Takes the bytes of a stream as they come and gives whole frames.
class FrameReader {
 public:
  // Reads what is there without waiting for more. False: the other end closed.
  Result<bool> Fill(int fd);
  Result<std::optional<Json>> Next();

 private:
  std::string buffer_;
};

}  // namespace autotune
