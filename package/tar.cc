#include "package/tar.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "support/file.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr size_t kLongestName = 4096;
constexpr int64_t kLongestExtension = int64_t{1} << 20;  // bytes of a pax header

// The header of an entry.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[8], user[32],
      group[32], major[8], minor[8], prefix[155], unused[12];
};
static_assert(sizeof(Header) == 512);

template <size_t N>
std::string_view TextOf(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// Returns the value of a number: octal digits that spaces or zeros may surround, or 0x80 and a big-endian number.
// Returns -1 if it is neither, or negative, or too large.
template <size_t N>
int64_t NumberOf(const char (&field)[N]) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t number = 0;
  if (static_cast<unsigned char>(field[0]) & 0x80) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return -1;
    for (size_t i = 1; i < N; ++i) {
      if (number > kMost >> 8) return -1;
      number = number << 8 | static_cast<unsigned char>(field[i]);
    }
    return number;
  }
  std::string_view text = TextOf(field);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (char c : text) {
    if (c < '0' || c > '7' || number > kMost >> 3) return -1;
    number = number << 3 | (c - '0');
  }
  return number;
}

// Sums up the bytes of a header, with spaces in place of the checksum. Old programs took the bytes as signed.
int64_t ChecksumOf(const Header& header, bool as_signed) {
  Header blank = header;
  std::memset(blank.checksum, ' ', sizeof blank.checksum);
  char bytes[sizeof blank];
  std::memcpy(bytes, &blank, sizeof blank);
  int64_t sum = 0;
  for (char c : bytes) sum += as_signed ? static_cast<signed char>(c) : static_cast<unsigned char>(c);
  return sum;
}

bool IsIntact(const Header& header) {
  const int64_t stated = NumberOf(header.checksum);
  return stated == ChecksumOf(header, false) || stated == ChecksumOf(header, true);
}

std::string NameOf(const Header& header) {
  std::string name(TextOf(header.name));
  const bool posix = std::string_view(header.magic, 6) == std::string_view("ustar\0", 6);
  if (posix && header.prefix[0]) return std::string(TextOf(header.prefix)) + "/" + name;
  return name;
}

TarType TypeOf(char type, const std::string& name) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      return name.ends_with('/') ? TarType::kFolder : TarType::kFile;
    case '5':
      return TarType::kFolder;
    case 'S':
      return TarType::kSparse;
    default:
      return TarType::kOther;
  }
}

// Writes `value` in octal digits and a NUL.
template <size_t N>
void PutOctal(char (&field)[N], int64_t value) {
  field[N - 1] = 0;
  for (size_t i = N - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
}

Status WriteEntry(int fd, char type, std::string_view name, std::string_view bytes, const std::string& what) {
  Header header{};
  std::memcpy(header.name, name.data(), std::min(name.size(), sizeof header.name));
  PutOctal(header.mode, 0644);
  PutOctal(header.uid, 0);
  PutOctal(header.gid, 0);
  PutOctal(header.mtime, 0);
  const auto size = static_cast<int64_t>(bytes.size());
  PutOctal(header.size, size);
  if (size >> 33) {  // more than eleven octal digits
    std::memset(header.size, 0, sizeof header.size);
    header.size[0] = static_cast<char>(0x80);
    for (size_t i = 0; i < sizeof size; ++i) header.size[11 - i] = static_cast<char>(size >> (8 * i));
  }
  header.type = type;
  std::memcpy(header.magic, "ustar  ", sizeof header.magic);  // GNU's
  const int64_t sum = ChecksumOf(header, false);
  for (int i = 0; i < 6; ++i) header.checksum[i] = static_cast<char>('0' + (sum >> (3 * (5 - i)) & 7));
  header.checksum[6] = 0;
  header.checksum[7] = ' ';
  TRY(WriteAll(fd, {reinterpret_cast<const char*>(&header), sizeof header}, what));
  TRY(WriteAll(fd, bytes, what));
  const std::string zeros(sizeof header, '\0');
  const size_t padding = AlignUp<size_t>(bytes.size(), sizeof header) - bytes.size();
  return WriteAll(fd, std::string_view(zeros).substr(0, padding), what);
}

}  // namespace

TarReader::TarReader(int fd) : fd_(fd), left_(int64_t{1} << 40) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const off_t at = lseek(fd, 0, SEEK_CUR);
  left_ = std::max<int64_t>(0, info.st_size - std::max<off_t>(at, 0));
}

// Reads up to `bytes` bytes, fewer only at the end of the file.
Result<size_t> TarReader::Fill(char* to, size_t bytes) {
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t n = read(fd_, to + filled, std::min<size_t>(bytes - filled, size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Err(std::strerror(errno));
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  left_ -= static_cast<int64_t>(filled);
  return filled;
}

// Reads a header. Returns false at the end mark, a block of zeros.
Result<bool> TarReader::ReadBlock(char* block) {
  const size_t filled = TRY(Fill(block, kBlock));
  if (filled == 0 && first_) return Err("it is empty");
  if (filled == 0) return Err("it is truncated, or was not written to its end");
  if (filled < kBlock) return Err(first_ ? "it is no tar file" : "a header is truncated");
  return std::any_of(block, block + kBlock, [](char c) { return c != 0; });
}

Status TarReader::CheckSize(const std::string& name, int64_t size) const {
  if (size < 0) return Err("member ", name, " has no valid size");
  if (size > left_) return Err("member ", name, " claims ", size, " bytes, but the file has only ", left_, " more");
  return {};
}

// Reads bytes whose number CheckSize has accepted. The text grows with the bytes that are read, since a file that is
// no regular one may end earlier.
Result<std::string> TarReader::ReadBytes(int64_t size) {
  constexpr size_t kStep = size_t{16} << 20;
  std::string bytes;
  while (static_cast<int64_t>(bytes.size()) < size) {
    const size_t begin = bytes.size(), more = std::min(kStep + begin, static_cast<size_t>(size) - begin);
    bytes.resize(begin + more);
    if (TRY(Fill(bytes.data() + begin, more)) < more) return Err("it is truncated");
  }
  return bytes;
}

Status TarReader::Skip() {
  int64_t bytes = pending_ + padding_;
  pending_ = padding_ = 0;
  char chunk[1 << 14];
  while (bytes > 0) {
    const size_t n = TRY(Fill(chunk, static_cast<size_t>(std::min<int64_t>(bytes, sizeof chunk))));
    if (n == 0) return Err("it is truncated");
    bytes -= static_cast<int64_t>(n);
  }
  return {};
}

// Reads the contents of a header that describes the entry after it. The contents of pax headers are lines
// "LENGTH KEY=VALUE\n", where LENGTH counts the whole line.
Status TarReader::ReadExtension(char type, int64_t size, Extension& extension) {
  if (size > kLongestExtension) return Err("an extended header has ", size, " bytes, which is too long");
  std::string bytes = TRY(ReadBytes(size));
  if (type == 'L') extension.name = bytes.substr(0, bytes.find('\0'));
  if (type != 'x') return {};
  for (std::string_view rest = bytes; !rest.empty() && rest[0] != '\0';) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const size_t digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 || rest[digits] != ' ' ||
        rest[length - 1] != '\n')
      return Err("an extended header is damaged");
    const std::string_view line = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Err("an extended header is damaged");
    const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "path") extension.name = value;
    if (key.starts_with("GNU.sparse.")) extension.sparse = true;
    if (key != "size") continue;
    extension.size = ParseInteger(value).value_or(-1);
    if (extension.size < 0) return Err("an extended header states no valid size");
  }
  return {};
}

Result<bool> TarReader::Next(TarEntry& entry) {
  Extension extension;
  for (;;) {
    TRY(Skip());
    Header header;
    char block[kBlock];
    if (!TRY(ReadBlock(block))) return false;
    std::memcpy(&header, block, sizeof header);
    if (!IsIntact(header)) return Err(first_ ? "it is no tar file" : "a header is damaged");
    first_ = false;
    const bool extends = std::string_view("xgLK").find(header.type) != std::string_view::npos;
    entry.name = extension.name.empty() || extends ? NameOf(header) : extension.name;
    entry.size = extension.size < 0 || extends ? NumberOf(header.size) : extension.size;
    entry.type = TypeOf(header.type, entry.name);
    if (extension.sparse) entry.type = TarType::kSparse;
    if (entry.name.size() > kLongestName)
      return Err("a member has a name of ", entry.name.size(), " bytes, which is too long");
    if (entry.name.empty()) return Err("a member has no name");
    // The size of a link or a folder says nothing about the file.
    if (!extends && header.type != 'S' && entry.type != TarType::kFile && entry.type != TarType::kSparse)
      entry.size = 0;
    TRY(CheckSize(entry.name, entry.size));
    padding_ = AlignUp<int64_t>(entry.size, kBlock) - entry.size;
    if (!extends) {
      pending_ = entry.size;
      return true;
    }
    TRY(ReadExtension(header.type, entry.size, extension));
  }
}

Result<std::string> TarReader::Contents() {
  const int64_t size = std::exchange(pending_, 0);
  return ReadBytes(size);
}

Status WriteTar(int fd, const std::vector<std::pair<std::string, std::string_view>>& members, const std::string& what) {
  for (const auto& [name, bytes] : members) {
    if (name.size() > sizeof Header::name) TRY(WriteEntry(fd, 'L', "././@LongLink", name + '\0', what));
    TRY(WriteEntry(fd, '0', name, bytes, what));
  }
  return WriteAll(fd, std::string(2 * sizeof(Header), '\0'), what);
}

}  // namespace autotune
