// Messages over a socket pair between the server's parent process and its runner. A message is the number of frames,
// their lengths (all 32-bit little-endian), and their bytes. LoopChannel is the parent's end. It never blocks, and it
// validates everything that it reads, since a candidate may have overwritten the runner's memory. BlockingChannel is
// the runner's end. Neither is thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/blob_shelf.h"
#include "rpc/message.h"
#include "support/loop.h"
#include "support/unique_fd.h"

namespace autotune::rpc {

inline constexpr size_t kMaxChannelBytes = 512u << 20;  // limit of one message

// Returns whether the outputs of a reference fit into one message together with two artifacts.
bool OutputsFit(const std::vector<Blob>& outputs);

std::string HeadOf(const Frames& frames);      // their number and their sizes
std::string PackFrames(const Frames& frames);  // the head, then the frames

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

// Takes the bytes of PackFrames as they arrive, and copies each once. `bytes`: how many they are. The frames have their
// memory from `shelf`.
class FrameReader {
 public:
  explicit FrameReader(int64_t bytes, std::shared_ptr<BlobShelf> shelf = BlobShelf::Make(0))
      : bytes_(bytes), shelf_(std::move(shelf)) {}
  void Add(std::string_view bytes);
  Result<Frames> Finish();  // once, after all bytes; an error if they are no frames
  int64_t KeptBytes() const;

 private:
  void ReadHead();

  int64_t bytes_;
  std::shared_ptr<BlobShelf> shelf_;
  std::string head_;               // the number of frames and their sizes
  size_t head_bytes_ = 4;          // of the head, as far as it is known
  std::vector<size_t> sizes_;      // of the frames; empty before the head is there
  std::vector<std::string> done_;  // frames; the last one is being filled
  std::optional<Error> error_;
};

class LoopChannel {
 public:
  // Calls on_closed once: at the end of the stream with an empty reason, or at the first malformed message.
  LoopChannel(Loop& loop, UniqueFd fd, std::function<void(Message)> on_message,
              std::function<void(const std::string& reason)> on_closed);
  ~LoopChannel();
  void Send(const Message& message);  // the queue has no limit, since only the parent fills it

  // Handles the messages that have arrived. The loop also calls this when the socket becomes readable.
  void Read();
  // Drops everything that has arrived, the begin of a message included.
  void Discard();
  int64_t buffered() const { return static_cast<int64_t>(unpacker_.buffered() + outgoing_bytes_); }

 private:
  void Write();
  void Close(const std::string& reason);

  Loop& loop_;
  UniqueFd fd_;
  std::function<void(Message)> on_message_;
  std::function<void(const std::string&)> on_closed_;
  Unpacker unpacker_;
  void Queue(Blob bytes);
  std::deque<Blob> outgoing_;
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
  // Appends what is read. Returns false if the other end is closed.
  Result<bool> Append(std::string& bytes, size_t count);
  int fd_;
  std::shared_ptr<BlobShelf> shelf_ = BlobShelf::Make(kMaxUploadedBlobBytes);
};

}  // namespace autotune::rpc
