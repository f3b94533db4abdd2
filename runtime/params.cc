#include "runtime/params.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/file.h"

namespace autotune {
namespace {

constexpr std::string_view kParamsMagic = "ATPARAMS";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kParamsAlignment = 64;
constexpr uint32_t kMaxRank = 64;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the blob is read in place");

uint64_t AlignParams(uint64_t n) { return (n + kParamsAlignment - 1) / kParamsAlignment * kParamsAlignment; }

template <class T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void PutString(std::string& out, std::string_view text) {
  Put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Reads a blob from its front. Once too few bytes are left, every further read fails.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  template <class T>
  T Get() {
    T value{};
    std::string_view bytes = Take(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view Text() { return Take(Get<uint32_t>()); }

 private:
  std::string_view Take(size_t count) {
    ok_ = ok_ && count <= bytes_.size();
    if (!ok_) return {};
    std::string_view result = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return result;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

// Calls make(shape, type, data) for each tensor.
template <class F>
Result<Params> Read(std::string_view blob, F make) {
  if (!blob.starts_with(kParamsMagic)) return Err("not a parameters file");
  HeaderReader prefix(blob.substr(kParamsMagic.size()));
  auto version = prefix.Get<uint32_t>(), count = prefix.Get<uint32_t>();
  auto header_bytes = prefix.Get<uint64_t>();
  if (!prefix.ok()) return Err("truncated parameters file: ", blob.size(), " bytes");
  if (version != kVersion) return Err("parameters file of version ", version, "; this runtime reads ", kVersion);
  if (header_bytes > blob.size() || header_bytes < kParamsMagic.size() + 16) {
    return Err("truncated parameters file: its header takes ", header_bytes, " bytes of ", blob.size());
  }
  HeaderReader reader(blob.substr(kParamsMagic.size() + 16, header_bytes - kParamsMagic.size() - 16));
  Params params;
  for (uint32_t i = 0; i < count; ++i) {
    std::string name(reader.Text()), type(reader.Text());
    auto rank = reader.Get<uint32_t>();
    if (!reader.ok() || rank > kMaxRank) return Err("malformed parameters file: tensor ", i, " of ", count);
    std::vector<int64_t> shape(rank);
    for (int64_t& extent : shape) extent = reader.Get<int64_t>();
    auto offset = reader.Get<uint64_t>(), bytes = reader.Get<uint64_t>();
    if (!reader.ok()) return Err("malformed parameters file: tensor ", i, " of ", count);
    std::string where = "parameter '" + name + "'";
    DLDataType dtype = TRY_NOTE(DataTypeFromText(type), where);
    auto needed = static_cast<uint64_t>(TRY_NOTE(ShapeBytes(shape, dtype), where));
    if (bytes != needed) return Err(where, ": ", type, ShapeText(shape), " takes ", needed, " bytes, not ", bytes);
    if (offset % kParamsAlignment != 0 || offset < header_bytes) return Err(where, ": misplaced data");
    if (offset > blob.size() || bytes > blob.size() - offset) {
      return Err("truncated parameters file: ", where, " ends at byte ", offset + bytes, " of ", blob.size());
    }
    Tensor tensor = TRY_NOTE(make(std::move(shape), dtype, blob.substr(offset, bytes)), where);
    if (!params.emplace(std::move(name), std::move(tensor)).second) return Err(where, " occurs twice");
  }
  return params;
}

}  // namespace

std::string ParamsBytes(const Params& params) {
  uint64_t header_bytes = kParamsMagic.size() + 16;
  for (const auto& [name, tensor] : params) {
    header_bytes += 12 + name.size() + DataTypeText(tensor.dtype()).size() + 8 * tensor.shape().size() + 16;
  }
  std::string out(kParamsMagic);
  Put(out, kVersion);
  Put(out, static_cast<uint32_t>(params.size()));
  Put(out, header_bytes);
  uint64_t offset = AlignParams(header_bytes);
  for (const auto& [name, tensor] : params) {
    PutString(out, name);
    PutString(out, DataTypeText(tensor.dtype()));
    Put(out, static_cast<uint32_t>(tensor.shape().size()));
    for (int64_t extent : tensor.shape()) Put(out, extent);
    Put(out, offset);
    Put(out, static_cast<uint64_t>(tensor.num_bytes()));
    offset = AlignParams(offset + tensor.num_bytes());
  }
  CHECK(out.size() == header_bytes);
  out.reserve(offset);
  for (const auto& [name, tensor] : params) {
    out.resize(AlignParams(out.size()));
    out += tensor.bytes();
  }
  return out;
}

Result<Params> ParseParams(std::string_view blob) {
  return Read(blob, [](std::vector<int64_t> shape, DLDataType type, std::string_view data) {
    return Tensor::FromBytes(std::move(shape), type, data);
  });
}

Result<Params> ViewParams(std::string_view blob, std::shared_ptr<void> owner) {
  CHECK(reinterpret_cast<uintptr_t>(blob.data()) % kParamsAlignment == 0) << "a misaligned parameters blob";
  return Read(blob, [&](std::vector<int64_t> shape, DLDataType type, std::string_view data) {
    return Tensor::View(const_cast<char*>(data.data()), std::move(shape), type, owner);
  });
}

Result<Params> LoadParams(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Err("cannot open ", path, ": ", std::strerror(errno));
  off_t size = lseek(fd, 0, SEEK_END);
  // The mapping is private and writable, so that writes to the tensors do not reach the file.
  void* memory = size > 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) return Err("cannot read ", path, size == 0 ? ": it is empty" : "");
  std::shared_ptr<void> owner(memory, [size](void* p) { munmap(p, size); });
  return TRY_NOTE(ViewParams({static_cast<char*>(memory), static_cast<size_t>(size)}, owner), path);
}

Status SaveParams(const std::string& path, const Params& params) { return WriteFile(path, ParamsBytes(params)); }

}  // namespace autotune
