#include "rpc/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rpc/shared_memory.h"

namespace autotune::rpc {
namespace {

// This bit of a frame's length says that the frame lies in shared memory.
constexpr uint32_t kShared = 1u << 31;

void PutNumber(std::string& out, uint32_t n) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(n >> shift);
}
uint32_t GetNumber(std::string_view in, size_t at) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i) n |= uint32_t{static_cast<unsigned char>(in[at + i])} << (8 * i);
  return n;
}

Result<Message> DecodeFrames(const Frames& frames) {
  auto decoded = Decode(frames);
  if (auto* error = std::get_if<DecodeError>(&decoded)) return Err(error->refusal.text);
  return std::move(std::get<Message>(decoded));
}

}  // namespace

bool OutputsFit(const std::vector<Blob>& outputs) {
  constexpr size_t kOtherFrames = 4;  // header, body, candidate, reference
  constexpr size_t kOtherBytes = 2 * kMaxUploadedBlobBytes + (1 << 20);
  size_t bytes = 0;
  for (const Blob& output : outputs) bytes += output->size();
  return outputs.size() <= kMaxFrames - kOtherFrames && bytes <= kMaxChannelBytes - kOtherBytes;
}

std::string HeadOf(const Frames& frames) {
  CHECK(frames.size() <= kMaxFrames);
  std::string head;
  PutNumber(head, static_cast<uint32_t>(frames.size()));
  for (const Blob& frame : frames) PutNumber(head, static_cast<uint32_t>(frame->size()));
  return head;
}

std::string PackFrames(const Frames& frames) {
  std::string out = HeadOf(frames);
  size_t bytes = out.size();
  for (const Blob& frame : frames) bytes += frame->size();
  out.reserve(bytes);
  for (const Blob& frame : frames) out += *frame;
  return out;
}

Result<std::vector<std::string_view>> CutFrames(std::string_view packed) {
  const size_t count = packed.size() < 4 ? 0 : GetNumber(packed, 0);
  if (count > kMaxFrames) return Err("a message has too many frames: ", count);
  size_t at = 4 + 4 * count;
  if (packed.size() < at) return Err("the number of frames and their sizes are cut off");
  std::vector<std::string_view> frames;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = GetNumber(packed, 4 + 4 * i);
    if (size > packed.size() - at) return Err("the frames have other sizes than all bytes");
    frames.push_back(packed.substr(at, size));
    at += size;
  }
  if (at != packed.size()) return Err("the frames have other sizes than all bytes");
  return frames;
}

Result<std::optional<Frames>> Unpacker::Next() {
  if (buffer_.size() < 4) return std::optional<Frames>();
  size_t count = GetNumber(buffer_, 0);
  if (count > kMaxFrames) return Err("a message has too many frames: ", count);
  size_t head = 4 + 4 * count;
  if (buffer_.size() < head) return std::optional<Frames>();
  size_t total = head;
  for (size_t i = 0; i < count; ++i) total += GetNumber(buffer_, 4 + 4 * i);
  if (total > kMaxChannelBytes) return Err("a message is too long: ", total, " bytes");
  // The announced size reserves no memory: the buffer grows only with the bytes that arrive.
  if (buffer_.size() < total) return std::optional<Frames>();
  Frames frames;
  size_t at = head;
  for (size_t i = 0; i < count; ++i) {
    size_t size = GetNumber(buffer_, 4 + 4 * i);
    frames.push_back(MakeBlob(buffer_.substr(at, size)));
    at += size;
  }
  buffer_.erase(0, total);
  return std::optional<Frames>(std::move(frames));
}

LoopChannel::LoopChannel(Loop& loop, UniqueFd fd, std::function<void(Message)> on_message,
                         std::function<void(const std::string&)> on_closed, bool shares_memory)
    : loop_(loop),
      fd_(std::move(fd)),
      on_message_(std::move(on_message)),
      on_closed_(std::move(on_closed)),
      shares_memory_(shares_memory) {
  fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  reading_ = loop_.OnReadable(fd_.get(), [this] { Read(); });
}

LoopChannel::~LoopChannel() { *alive_ = false; }

void LoopChannel::Send(const Message& message) {
  if (!fd_) return;
  const Frames frames = Encode(message);
  // A message passes one descriptor. Frames in other shared memory are copied.
  Blob shared;
  for (const Blob& frame : frames)
    if (shares_memory_ && frame->memory()) shared = frame;
  const SharedMemory* memory = shared ? shared->memory() : nullptr;
  const auto is_shared = [&](const Blob& frame) { return memory && frame->memory() == memory; };
  std::string head, places;
  PutNumber(head, static_cast<uint32_t>(frames.size()));
  for (const Blob& frame : frames) {
    PutNumber(head, static_cast<uint32_t>(frame->size()) | (is_shared(frame) ? kShared : 0));
    if (is_shared(frame)) PutNumber(places, static_cast<uint32_t>(frame->data() - memory->data()));
  }
  Queue({MakeBlob(head + places), memory, shared});
  for (const Blob& frame : frames)
    if (!is_shared(frame)) Queue({frame});
  Write();
}

void LoopChannel::Queue(Outgoing next) {
  if (next.bytes->empty()) return;
  outgoing_bytes_ += next.bytes->size();
  outgoing_.push_back(std::move(next));
}

ssize_t LoopChannel::WriteSome(const Outgoing& next) {
  const std::string_view rest = next.bytes->substr(sent_);
  if (!next.memory || sent_ > 0) return send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  const int descriptor = next.memory->descriptor();
  iovec bytes{const_cast<char*>(rest.data()), rest.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* passed = CMSG_FIRSTHDR(&message);
  passed->cmsg_level = SOL_SOCKET;
  passed->cmsg_type = SCM_RIGHTS;
  passed->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(passed), &descriptor, sizeof descriptor);
  return sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
}

void LoopChannel::Write() {
  while (!outgoing_.empty()) {
    const Outgoing& first = outgoing_.front();
    ssize_t n = WriteSome(first);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (!writing_) writing_ = loop_.OnWritable(fd_.get(), [this] { Write(); });
      return;
    }
    // The peer is gone. Read still delivers the messages that the peer sent before its end, and then notices the end.
    if (n < 0) break;
    sent_ += static_cast<size_t>(n);
    if (sent_ < first.bytes->size()) continue;
    outgoing_bytes_ -= first.bytes->size();
    outgoing_.pop_front();
    sent_ = 0;
  }
  outgoing_.clear();
  outgoing_bytes_ = sent_ = 0;
  writing_.reset();
}

void LoopChannel::Read() {
  auto alive = alive_;
  char bytes[65536];
  for (int i = 0; i < 64; ++i) {
    ssize_t n = recv(fd_.get(), bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Close("");
    unpacker_.Feed({bytes, static_cast<size_t>(n)});
    while (true) {
      auto frames = unpacker_.Next();
      if (!frames) return Close(frames.error().Text());
      if (!*frames) break;
      auto message = DecodeFrames(**frames);
      if (!message) return Close(message.error().Text());
      on_message_(std::move(*message));
      if (!*alive) return;  // the handler has destroyed this channel
    }
  }
}

void LoopChannel::Discard() {
  constexpr int kMost = 64;  // reads; the socket's buffer holds less, so more means that the peer goes on writing
  unpacker_ = {};
  char bytes[65536];
  for (int i = 0; i < kMost && fd_; ++i) {
    // The end of the stream stays readable for Read.
    if (recv(fd_.get(), bytes, sizeof bytes, 0) <= 0 && errno != EINTR) return;
  }
}

void LoopChannel::Close(const std::string& reason) {
  reading_.reset();
  writing_.reset();
  fd_.Reset();
  auto on_closed = on_closed_;  // a copy, since the callback may destroy this channel
  on_closed(reason);
}

ssize_t BlockingChannel::ReceiveSome(char* bytes, size_t count, UniqueFd* file) const {
  if (!file) return recv(fd_, bytes, count, 0);
  iovec part{bytes, count};
  int descriptor = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* passed = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (passed && passed->cmsg_level == SOL_SOCKET && passed->cmsg_type == SCM_RIGHTS) {
    memcpy(&descriptor, CMSG_DATA(passed), sizeof descriptor);
    file->Reset(descriptor);
  }
  return n;
}

Result<bool> BlockingChannel::Append(std::string& bytes, size_t count, UniqueFd* file) {
  char piece[65536];  // which stays in the cache; `bytes` would have to be filled with zeros first
  while (count > 0) {
    const ssize_t n = ReceiveSome(piece, std::min(count, sizeof piece), file);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("reading from the parent: ", strerror(errno));
    if (n == 0) return false;
    file = nullptr;
    bytes.append(piece, static_cast<size_t>(n));
    count -= static_cast<size_t>(n);
  }
  return true;
}

Result<std::optional<Message>> BlockingChannel::Receive() {
  UniqueFd file;
  std::string head;
  bool is_whole = TRY(Append(head, 4, &file));
  const size_t count = is_whole ? GetNumber(head, 0) : 0;
  if (count > kMaxFrames) return Err("a message has too many frames: ", count);
  if (is_whole) is_whole = TRY(Append(head, 4 * count));
  std::vector<std::pair<size_t, size_t>> shared;  // begin and size of the frames in shared memory
  size_t shared_end = 0;
  for (size_t i = 0; is_whole && i < count; ++i) {
    const uint32_t length = GetNumber(head, 4 + 4 * i);
    if (!(length & kShared)) continue;
    std::string place;
    is_whole = TRY(Append(place, 4));
    if (!is_whole) break;
    shared.emplace_back(GetNumber(place, 0), length & ~kShared);
    shared_end = std::max(shared_end, shared.back().first + shared.back().second);
  }
  std::shared_ptr<const char> memory;
  if (is_whole && !shared.empty()) memory = TRY(SharedMemory::Map(file, shared_end));
  Frames frames;
  auto next = shared.begin();
  for (size_t i = 0; is_whole && i < count; ++i) {
    const uint32_t length = GetNumber(head, 4 + 4 * i);
    if (length & kShared) {
      frames.push_back(MakeBlob({memory.get() + next->first, next->second}, memory));
      ++next;
      continue;
    }
    std::string frame;
    frame.reserve(length);
    is_whole = TRY(Append(frame, length));
    frames.push_back(MakeBlob(std::move(frame)));
  }
  if (!is_whole) return std::optional<Message>();
  return std::optional<Message>(TRY(DecodeFrames(frames)));
}

Status BlockingChannel::Send(const Message& message) {
  std::string bytes = PackFrames(Encode(message));
  for (size_t sent = 0; sent < bytes.size();) {
    ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("writing to the parent: ", strerror(errno));
    sent += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace autotune::rpc
