#include "rpc/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace autotune::rpc {
namespace {

void PutNumber(std::string& out, uint32_t n) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(n >> shift);
}
uint32_t GetNumber(const std::string& in, size_t at) {
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

void FrameReader::ReadHead() {
  const size_t count = GetNumber(head_, 0);
  if (count > kMaxFrames) {
    error_ = Err("a message has too many frames: ", count);
    return;
  }
  head_bytes_ = 4 + 4 * count;
  if (head_.size() < head_bytes_) return;
  auto left = bytes_ - static_cast<int64_t>(head_bytes_);
  for (size_t i = 0; i < count; ++i) {
    sizes_.push_back(GetNumber(head_, 4 + 4 * i));
    left -= static_cast<int64_t>(sizes_.back());
  }
  if (left != 0) error_ = Err("the frames have other sizes than all bytes");
}

void FrameReader::Add(std::string_view bytes) {
  while (!error_ && head_.size() < head_bytes_ && !bytes.empty()) {
    const std::string_view part = bytes.substr(0, head_bytes_ - head_.size());
    head_ += part;
    bytes.remove_prefix(part.size());
    if (head_.size() == head_bytes_) ReadHead();
  }
  while (!error_ && !bytes.empty()) {
    if (done_.empty() || done_.back().size() == sizes_[done_.size() - 1]) {
      // The bytes fill the sizes exactly, so there is another frame.
      CHECK(done_.size() < sizes_.size());
      done_.push_back(shelf_->Take(sizes_[done_.size()]));
    }
    std::string& frame = done_.back();
    const std::string_view part = bytes.substr(0, sizes_[done_.size() - 1] - frame.size());
    frame += part;
    bytes.remove_prefix(part.size());
  }
}

Result<Frames> FrameReader::Finish() {
  if (error_) return *error_;
  if (head_.size() < head_bytes_) return Err("the number of frames and their sizes are cut off");
  done_.resize(sizes_.size());  // the last ones may be empty
  Frames frames;
  for (std::string& frame : done_) frames.push_back(shelf_->Use(std::move(frame)));
  return frames;
}

int64_t FrameReader::KeptBytes() const {
  size_t bytes = 0;
  for (const std::string& frame : done_) bytes += frame.capacity();
  return static_cast<int64_t>(bytes);
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
    frames.push_back(std::make_shared<const std::string>(buffer_, at, size));
    at += size;
  }
  buffer_.erase(0, total);
  return std::optional<Frames>(std::move(frames));
}

LoopChannel::LoopChannel(Loop& loop, UniqueFd fd, std::function<void(Message)> on_message,
                         std::function<void(const std::string&)> on_closed)
    : loop_(loop), fd_(std::move(fd)), on_message_(std::move(on_message)), on_closed_(std::move(on_closed)) {
  fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  reading_ = loop_.OnReadable(fd_.get(), [this] { Read(); });
}

LoopChannel::~LoopChannel() { *alive_ = false; }

void LoopChannel::Send(const Message& message) {
  if (!fd_) return;
  const Frames frames = Encode(message);
  Queue(std::make_shared<const std::string>(HeadOf(frames)));
  for (const Blob& frame : frames) Queue(frame);
  Write();
}

void LoopChannel::Queue(Blob bytes) {
  if (bytes->empty()) return;
  outgoing_bytes_ += bytes->size();
  outgoing_.push_back(std::move(bytes));
}

void LoopChannel::Write() {
  while (!outgoing_.empty()) {
    const std::string& first = *outgoing_.front();
    ssize_t n = send(fd_.get(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (!writing_) writing_ = loop_.OnWritable(fd_.get(), [this] { Write(); });
      return;
    }
    // The peer is gone. Read still delivers the messages that the peer sent before its end, and then notices the end.
    if (n < 0) break;
    sent_ += static_cast<size_t>(n);
    if (sent_ < first.size()) continue;
    outgoing_bytes_ -= first.size();
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

Result<bool> BlockingChannel::Append(std::string& bytes, size_t count) {
  char piece[65536];  // which stays in the cache; `bytes` would have to be filled with zeros first
  while (count > 0) {
    const ssize_t n = recv(fd_, piece, std::min(count, sizeof piece), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err("reading from the parent: ", strerror(errno));
    if (n == 0) return false;
    bytes.append(piece, static_cast<size_t>(n));
    count -= static_cast<size_t>(n);
  }
  return true;
}

Result<std::optional<Message>> BlockingChannel::Receive() {
  Frames frames;
  std::string head;
  bool is_whole = TRY(Append(head, 4));
  const size_t count = is_whole ? GetNumber(head, 0) : 0;
  if (count > kMaxFrames) return Err("a message has too many frames: ", count);
  if (is_whole) is_whole = TRY(Append(head, 4 * count));
  for (size_t i = 0; is_whole && i < count; ++i) {
    const size_t size = GetNumber(head, 4 + 4 * i);
    std::string frame = shelf_->Take(size);
    is_whole = TRY(Append(frame, size));
    frames.push_back(shelf_->Use(std::move(frame)));
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
