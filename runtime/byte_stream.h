// ByteWriter and ByteReader: write and read numbers, strings and vectors in the layout of deployment formats:
// little-endian, no padding. A string is its length (u64), then its bytes. A vector is its number of elements (u64),
// then its elements. A damaged count cannot make the reader allocate more memory than the bytes justify. Not
// thread-safe.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/packed_func.h"
#include "support/result.h"

namespace autotune {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied in the machine's byte order");

class ByteWriter {
 public:
  using Sink = std::function<Status(std::string_view)>;

  ByteWriter() = default;  // collects the bytes, for Take
  // Passes the bytes to `sink`, in order; long pieces without a copy. The caller must call Finish at the end.
  explicit ByteWriter(Sink sink) : sink_(std::move(sink)) {}

  template <class T>
  requires std::is_arithmetic_v<T>
  void Number(T value) { Raw({reinterpret_cast<const char*>(&value), sizeof value}); }
  void Text(std::string_view text) {
    Number(static_cast<uint64_t>(text.size()));
    Raw(text);
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void Numbers(const std::vector<T>& values) {
    Number(static_cast<uint64_t>(values.size()));
    for (T value : values) Number(value);
  }
  void Texts(const std::vector<std::string>& texts) {
    Number(static_cast<uint64_t>(texts.size()));
    for (const std::string& text : texts) Text(text);
  }
  void Raw(std::string_view bytes) {
    size_ += bytes.size();
    if (sink_ && out_.size() + bytes.size() > kPiece) {
      HandOn(out_);
      out_.clear();
      if (bytes.size() > kPiece) return HandOn(bytes);
    }
    out_ += bytes;
  }
  void Reserve(size_t bytes) { out_.reserve(bytes); }
  uint64_t size() const { return size_; }  // bytes written so far
  std::string Take() { return std::move(out_); }
  // Passes the remaining bytes to the sink. Returns the first error of the sink.
  Status Finish() {
    HandOn(out_);
    out_.clear();
    return std::move(status_);
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 16;  // most bytes that wait for the sink

  void HandOn(std::string_view bytes) {
    if (status_.ok() && !bytes.empty()) status_ = sink_(bytes);
  }

  Sink sink_;
  std::string out_;
  uint64_t size_ = 0;
  Status status_;
};

// ByteReader is an Object, so that functions of the registry can read from it (runtime/module_blob.h). Borrows the
// bytes.
class ByteReader : public Object {
 public:
  // `what` names the bytes in errors: "parameters".
  ByteReader(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}
  std::string_view TypeKey() const override { return "byte_reader"; }

  size_t left() const { return bytes_.size(); }
  template <class T>
  requires std::is_arithmetic_v<T> Result<T> Number() {
    T value{};
    std::memcpy(&value, TRY(Raw(sizeof value)).data(), sizeof value);
    return value;
  }
  Result<std::string_view> Text() { return Raw(TRY(Number<uint64_t>())); }
  template <class T>
  requires std::is_arithmetic_v<T> Result<std::vector<T>> Numbers() {
    uint64_t count = TRY(Count(sizeof(T)));
    std::vector<T> values(count);
    for (T& value : values) value = TRY(Number<T>());
    return values;
  }
  Result<std::vector<std::string>> Texts() {
    uint64_t count = TRY(Count(sizeof(uint64_t)));
    std::vector<std::string> texts(count);
    for (std::string& text : texts) text = TRY(Text());
    return texts;
  }
  // Reads the number of the elements that follow, of at least `bytes_each` bytes each. Returns an error if fewer bytes
  // are left than so many elements need.
  Result<uint64_t> Count(size_t bytes_each) {
    auto count = TRY(Number<uint64_t>());
    if (count > bytes_.size() / bytes_each) {
      return Err(what_, ": truncated, or damaged: ", count, " elements of ", bytes_each,
                 " bytes or more do not fit into ", bytes_.size(), " bytes");
    }
    return count;
  }
  Result<std::string_view> Raw(uint64_t count) {
    if (count > bytes_.size()) {
      return Err(what_, ": truncated, or damaged: ", count, " bytes are needed where ", bytes_.size(), " are left");
    }
    std::string_view result = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return result;
  }
  // Returns an error if bytes are left.
  Status End() const {
    return bytes_.empty() ? Status() : Status(Err(what_, ": ", bytes_.size(), " bytes too many at the end"));
  }

 private:
  std::string_view bytes_;
  std::string what_;
};

// Returns the reader that a loader function got as its argument; an error if the object is no reader.
inline Result<std::shared_ptr<ByteReader>> ReaderOf(const ObjectRef& object) {
  auto reader = std::dynamic_pointer_cast<ByteReader>(object);
  if (!reader) return Err("expected a byte reader, got ", object ? object->TypeKey() : "null");
  return reader;
}

}  // namespace autotune
