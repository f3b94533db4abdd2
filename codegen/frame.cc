#include "codegen/frame.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace autotune {
namespace {

constexpr uint32_t kMaxFrame = 3u << 30;  // room for the parameters of any network that a shared object can hold

uint32_t LengthOf(const char* bytes) {
  uint32_t n = 0;
  for (int i = 0; i < 4; ++i) n |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return n;
}

// Reads exactly `size` bytes. Returns false if the other end was closed before the first byte.
Result<bool> ReadAll(int fd, char* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = read(fd, bytes + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("reading a frame: ", strerror(errno));
    if (n == 0 && done == 0) return false;
    if (n == 0) return Err("a frame is truncated");
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Status WriteFrame(int fd, const Json& message) {
  std::string body = message.Cbor();
  if (body.size() > kMaxFrame) return Err("a message of ", body.size(), " bytes is too long");
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(body.size() >> (8 * i));
  bytes += body;
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("writing a frame: ", strerror(errno));
    done += static_cast<size_t>(n);
  }
  return {};
}

Result<std::optional<Json>> ReadFrame(int fd) {
  char head[4];
  if (!TRY(ReadAll(fd, head, 4))) return std::optional<Json>();
  uint32_t size = LengthOf(head);
  if (size > kMaxFrame) return Err("a frame of ", size, " bytes is too long");
  std::string body(size, '\0');
  if (size && !TRY(ReadAll(fd, body.data(), size))) return Err("a frame is truncated");
  return std::optional<Json>(TRY(Json::ParseCbor(body)));
}

Result<bool> FrameReader::Fill(int fd) {
  char bytes[1 << 16];
  for (;;) {
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n < 0) return Err("reading a frame: ", strerror(errno));
    if (n == 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
  }
}

Result<std::optional<Json>> FrameReader::Next() {
  if (buffer_.size() < 4) return std::optional<Json>();
  uint32_t size = LengthOf(buffer_.data());
  if (size > kMaxFrame) return Err("a frame of ", size, " bytes is too long");
  if (buffer_.size() - 4 < size) return std::optional<Json>();
  Json message = TRY(Json::ParseCbor(std::string_view(buffer_).substr(4, size)));
  buffer_.erase(0, 4 + size_t{size});
  return std::optional<Json>(std::move(message));
}

}  // namespace autotune
