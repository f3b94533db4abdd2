#include "runtime/npy.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "support/file.h"

namespace autotune {
namespace {

constexpr std::string_view kNpyMagic("\x93NUMPY", 6);

struct NpyType {
  std::string_view descr, text;
};
constexpr NpyType kNpyTypes[] = {{"|b1", "bool"}, {"|i1", "i8"},  {"<i2", "i16"}, {"<i4", "i32"},
                                 {"<i8", "i64"},  {"|u1", "u8"},  {"<u2", "u16"}, {"<u4", "u32"},
                                 {"<u8", "u64"},  {"<f2", "f16"}, {"<f4", "f32"}, {"<f8", "f64"}};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Parses the header, a Python dictionary literal with exactly three keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> Parse() {
    Header header;
    if (!Take('{')) return Bad();
    while (!Take('}')) {
      std::optional<std::string> key = String();
      if (!key || !Take(':')) return Bad();
      if (*key == "descr") {
        Skip();
        if (!text_.empty() && text_[0] == '[') return Err("a structured array; save one plain array per file");
        header.descr = String();
        if (!header.descr) return Bad();
      } else if (*key == "fortran_order") {
        if (TakeWord("True")) {
          header.fortran_order = true;
        } else if (TakeWord("False")) {
          header.fortran_order = false;
        } else {
          return Bad();
        }
      } else if (*key == "shape") {
        header.shape = Tuple();
        if (!header.shape) return Bad();
      } else {
        return Bad();
      }
      if (!Take(',') && (Skip(), text_.empty() || text_[0] != '}')) return Bad();
    }
    if (!header.descr || !header.fortran_order || !header.shape) return Bad();
    return header;
  }

 private:
  static Error Bad() { return Err("malformed .npy header"); }
  void Skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool Take(char c) {
    Skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    Skip();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> String() {
    Skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string result(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return result;
  }
  std::optional<std::vector<int64_t>> Tuple() {
    std::vector<int64_t> values;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      Skip();
      int64_t value = 0;
      auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) return std::nullopt;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      values.push_back(value);
      if (!Take(',') && (Skip(), text_.empty() || text_[0] != ')')) return std::nullopt;
    }
    return values;
  }
  std::string_view text_;
};

}  // namespace

Result<Tensor> ParseNpy(std::string_view bytes) {
  if (!bytes.starts_with(kNpyMagic)) return Err("not a .npy file");
  if (bytes.size() < 10) return Err("truncated .npy file: ", bytes.size(), " bytes");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  size_t version = byte(6), begin = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) return Err("unknown .npy version ", version);
  if (bytes.size() < begin) return Err("truncated .npy file: ", bytes.size(), " bytes");
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) return Err("truncated .npy file: its header ends after the file");
  Header header = TRY(HeaderParser(bytes.substr(begin, length)).Parse());
  std::string_view data = bytes.substr(begin + length);

  std::string_view type;
  for (const NpyType& row : kNpyTypes) {
    if (*header.descr == row.descr) type = row.text;
  }
  if (type.empty()) {
    return Err("element type '", *header.descr, "' is not supported",
               header.descr->starts_with('>') ? ": save it little-endian (array.astype(array.dtype.newbyteorder('<')))"
                                              : "; use bool, int, uint or float");
  }
  int large = 0;
  for (int64_t extent : *header.shape) large += extent != 1;
  if (*header.fortran_order && large > 1) {
    return Err("the array is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  DLDataType dtype = TRY(DataTypeFromText(type));
  int64_t needed = TRY(ShapeBytes(*header.shape, dtype));
  if (static_cast<int64_t>(data.size()) != needed) {
    return Err(static_cast<int64_t>(data.size()) < needed ? "truncated .npy file: " : "trailing bytes in .npy file: ",
               type, ShapeText(*header.shape), " takes ", needed, " bytes, the file has ", data.size());
  }
  return Tensor::FromBytes(*header.shape, dtype, data);
}

Result<Tensor> ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Err("cannot open ", path, ": ", std::strerror(errno));
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Err("cannot read ", path, ": ", std::strerror(errno));
  return TRY_NOTE(ParseNpy(bytes), path);
}

Result<std::string> NpyBytes(const Tensor& tensor) {
  std::string type = DataTypeText(tensor.dtype());
  std::string_view descr;
  for (const NpyType& row : kNpyTypes) {
    if (type == row.text) descr = row.descr;
  }
  if (descr.empty()) return Err("a tensor of type ", type, " has no .npy form");
  std::string header = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : tensor.shape()) header += std::to_string(extent) + ",";
  if (tensor.shape().size() > 1) header.pop_back();
  header += "), }";
  while ((kNpyMagic.size() + 4 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out(kNpyMagic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out += tensor.bytes();
  return out;
}

Status WriteNpy(const std::string& path, const Tensor& tensor) { return WriteFile(path, TRY(NpyBytes(tensor))); }

}  // namespace autotune
