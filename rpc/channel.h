// Messages over a socket pair between the server's parent process and its runner. A message is the number of frames,
// their lengths (all 32-bit little-endian), and their bytes. Frames that lie in shared memory (rpc/shared_memory.h)
// need not be copied: their lengths have the highest bit set, and instead of their bytes, their places in the memory
// follow the lengths. The memory's descriptor comes with the first byte of the message. LoopChannel is the parent's
// end. It never blocks, and it validates everything that it reads, since a candidate may have overwritten the runner's
// memory. BlockingChannel is the runner's end. Neither is thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/message.h"
#include "support/loop.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

inline constexpr size_t kMaxChannelBytes = 512u << 20;  // limit of one message

// Returns whether the outputs of a reference fit into one message together with two artifacts.
bool OutputsFit(const std::vector<Blob>& outputs);

std::string HeadOf(const Frames& frames);      // their number and their sizes
std::string PackFrames(const Frames& frames);  // the head, then the frames
// Returns the frames of PackFrames, as parts of its bytes. Error: the bytes are no frames.
Result<std::vector<std::string_view>> CutFrames(std::string_view packed);

// Cuts a stream of bytes into messages.
class Unpacker {
 public:
  void Feed(std::string_view bytes) { buffer_.append(bytes); }
  // Returns the next message, or nullopt if it is not complete yet. An error (too many frames or bytes) is final.
  Result<std::optional<Frames>> Next();
  size_t buffered() const { return buffer_.size(); }

 private:
  std::string buffer_;
};

class LoopChannel {
 public:
  // Calls on_closed once: at the end of the stream with an empty reason, or at the first malformed message.
  // `shares_memory`: the other end is a BlockingChannel of this host, which can map shared memory.
  LoopChannel(Loop& loop, UniqueFd fd, std::function<void(Message)> on_message,
              std::function<void(const std::string& reason)> on_closed, bool shares_memory = false);
  ~LoopChannel();
  void Send(const Message& message);  // the queue has no limit, since only the parent fills it

  // Handles the messages that have arrived. The loop also calls this when the socket becomes readable.
  void Read();
  // Drops everything that has arrived, the begin of a message included.
  void Discard();
  int64_t buffered() const { return static_cast<int64_t>(unpacker_.buffered() + outgoing_bytes_); }

 private:
  // Bytes that wait to be sent. If `memory` is not null, its descriptor is sent together with the first of them.
  struct Outgoing {
    Blob bytes;
    const SharedMemory* memory = nullptr;
    Blob keeps = nullptr;  // keeps the memory alive
  };
  void Queue(Outgoing next);
  void Write();
  ssize_t WriteSome(const Outgoing& next);
  void Close(const std::string& reason);

  Loop& loop_;
  UniqueFd fd_;
  std::function<void(Message)> on_message_;
  std::function<void(const std::string&)> on_closed_;
  Unpacker unpacker_;
  const bool shares_memory_;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;  // of all of them
  size_t sent_ = 0;            // of the first one
  Loop::Watch reading_, writing_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class BlockingChannel {
 public:
  explicit BlockingChannel(int fd) : fd_(fd) {}
  Result<std::optional<Message>> Receive();  // waits for the next message; nullopt: the other end is closed
  Status Send(const Message& message);

 private:
  // Appends what is read. Returns false if the other end is closed. `file` takes a descriptor that comes with the first
  // byte.
  Result<bool> Append(std::string& bytes, size_t count, UniqueFd* file = nullptr);
  ssize_t ReceiveSome(char* bytes, size_t count, UniqueFd* file) const;
  int fd_;
};

}  // namespace autotune::rpc
