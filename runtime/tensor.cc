#include "runtime/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "runtime/device.h"
#include "support/integer.h"
#include "support/join.h"

namespace autotune {
namespace {

constexpr uint32_t kDLPackMajor = 1;
constexpr int64_t kAlignment = 64;
constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 62;
constexpr int64_t kMaxAllocation = int64_t{1} << 39;  // sanitizers abort the process at larger allocations

struct NamedType {
  std::string_view text;
  DLDataType type;
};
constexpr NamedType kTypes[] = {
    {"f32", {kDLFloat, 32, 1}}, {"f64", {kDLFloat, 64, 1}}, {"f16", {kDLFloat, 16, 1}}, {"bf16", {kDLBfloat, 16, 1}},
    {"i8", {kDLInt, 8, 1}},     {"i16", {kDLInt, 16, 1}},   {"i32", {kDLInt, 32, 1}},   {"i64", {kDLInt, 64, 1}},
    {"u8", {kDLUInt, 8, 1}},    {"u16", {kDLUInt, 16, 1}},  {"u32", {kDLUInt, 32, 1}},  {"u64", {kDLUInt, 64, 1}},
    {"bool", {kDLUInt, 1, 1}},
};

// Returns true if the elements are contiguous in row-major order. Dimensions of extent 1 may have any stride.
bool IsCompact(const DLTensor& dl) {
  if (!dl.strides) return true;
  int64_t expected = 1;
  for (int i = dl.ndim - 1; i >= 0; --i) {
    if (dl.shape[i] != 1 && dl.strides[i] != expected) return false;
    expected *= dl.shape[i];
  }
  return true;
}

// Copies the elements of a tensor with strides to `to`, where they become contiguous. `from` is the first element.
void CopyStrided(const DLTensor& dl, const char* from, char* to) {
  const int64_t bytes = DataTypeBytes(dl.dtype);
  std::vector<int64_t> index(dl.ndim, 0);
  int64_t elements = 1;
  for (int i = 0; i < dl.ndim; ++i) elements *= dl.shape[i];
  for (int64_t n = 0; n < elements; ++n) {
    int64_t offset = 0;
    for (int i = 0; i < dl.ndim; ++i) offset += index[i] * dl.strides[i];
    std::memcpy(to + n * bytes, from + offset * bytes, bytes);
    for (int i = dl.ndim - 1; i >= 0 && ++index[i] == dl.shape[i]; --i) index[i] = 0;
  }
}

}  // namespace

Result<DLDataType> DataTypeFromText(std::string_view text) {
  for (const NamedType& row : kTypes) {
    if (row.text == text) return row.type;
  }
  return Err("unknown element type '", text.substr(0, 32), "'");
}

std::string DataTypeText(DLDataType type) {
  for (const NamedType& row : kTypes) {
    if (row.type == type) return std::string(row.text);
  }
  return "dtype(" + std::to_string(type.code) + ", " + std::to_string(type.bits) + ", " + std::to_string(type.lanes) +
         ")";
}

std::string ShapeText(const std::vector<int64_t>& shape) { return "[" + Joined(shape) + "]"; }

Result<int64_t> ShapeBytes(const std::vector<int64_t>& shape, DLDataType type) {
  // Handle zero extents first. Otherwise a large extent before a zero could overflow, and the same extent after it
  // could not.
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) return Err("shape ", ShapeText(shape), " has a negative dimension");
    empty |= extent == 0;
  }
  if (empty) return int64_t{0};
  int64_t bytes = DataTypeBytes(type);
  for (int64_t extent : shape) {
    if (bytes > kMaxBytes / extent) return Err("shape ", ShapeText(shape), " is too large");
    bytes *= extent;
  }
  return bytes;
}

std::shared_ptr<void> AllocateAligned(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxAllocation) return nullptr;
  // Whole huge pages also hold the end of a large block, and pages hold small ones: else the speed of kernels would
  // depend on where an allocator cuts the block, and on which pages the kernel has.
  const bool large = bytes >= kHugePage / 2;
  const int64_t alignment = large ? kHugePage : bytes >= kPage ? kPage : kAlignment;
  const int64_t rounded = AlignUp(std::max<int64_t>(bytes, 1), alignment);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, rounded) != 0) return nullptr;
  if (large) madvise(memory, rounded, MADV_HUGEPAGE);  // a hint: fewer TLB misses where the kernel grants it
  return {memory, [](void* p) { std::free(p); }};
}

Result<Tensor> Tensor::View(void* data, std::vector<int64_t> shape, DLDataType type, std::shared_ptr<void> keep_alive) {
  int64_t bytes = TRY(ShapeBytes(shape, type));
  auto node = std::make_shared<Node>();
  node->shape = std::move(shape);
  node->elements = bytes / std::max<int64_t>(DataTypeBytes(type), 1);
  node->memory = std::move(keep_alive);
  node->dl.data = data;
  node->dl.device = {kDLCPU, 0};
  node->dl.ndim = static_cast<int>(node->shape.size());
  node->dl.dtype = type;
  node->dl.shape = node->shape.data();
  return Tensor(std::move(node));
}

Result<Tensor> Tensor::Empty(std::vector<int64_t> shape, DLDataType type) {
  int64_t bytes = TRY(ShapeBytes(shape, type));
  std::shared_ptr<void> memory = AllocateAligned(bytes);
  if (!memory) return OutOfMemory("cannot allocate ", bytes, " bytes for ", DataTypeText(type), ShapeText(shape));
  void* data = memory.get();
  return View(data, std::move(shape), type, std::move(memory));
}

Result<Tensor> Tensor::Empty(std::vector<int64_t> shape, std::string_view type) {
  DLDataType parsed = TRY(DataTypeFromText(type));
  return Empty(std::move(shape), parsed);
}

Result<Tensor> Tensor::Zeros(std::vector<int64_t> shape, std::string_view type) {
  Tensor tensor = TRY(Empty(std::move(shape), type));
  if (tensor.num_bytes() > 0) std::memset(tensor.data(), 0, tensor.num_bytes());
  return tensor;
}

Result<Tensor> Tensor::FromBytes(std::vector<int64_t> shape, DLDataType type, std::string_view bytes) {
  Tensor tensor = TRY(Empty(std::move(shape), type));
  if (static_cast<int64_t>(bytes.size()) != tensor.num_bytes()) {
    return Err(tensor.TypeText(), " takes ", tensor.num_bytes(), " bytes, got ", bytes.size());
  }
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

Result<Tensor> Tensor::OnDevice(DevicePtr device, void* data, std::vector<int64_t> shape, DLDataType type,
                                std::shared_ptr<void> keep_alive) {
  CHECK(!device->IsHost()) << "Tensor::View makes tensors of the host's memory";
  Tensor tensor = TRY(View(data, std::move(shape), type, std::move(keep_alive)));
  tensor.node_->dl.device = device->dl();
  tensor.node_->device = std::move(device);
  return tensor;
}

Result<Tensor> Tensor::Strided(void* data, std::vector<int64_t> shape, std::vector<int64_t> strides, DLDataType type,
                               std::shared_ptr<void> keep_alive) {
  if (strides.size() != shape.size())
    return Err("a tensor of rank ", shape.size(), " with ", strides.size(), " strides");
  TRY(ShapeBytes(shape, type));
  DLTensor dl{};
  dl.data = data;
  dl.device = {kDLCPU, 0};
  dl.ndim = static_cast<int>(shape.size());
  dl.dtype = type;
  dl.shape = shape.data();
  dl.strides = strides.data();
  return FromDLTensor(dl, std::move(keep_alive));
}

Result<Tensor> Tensor::FromDLTensor(const DLTensor& dl, std::shared_ptr<void> owner) {
  if (dl.ndim < 0 || (dl.ndim > 0 && !dl.shape)) return Err("a DLPack tensor without a shape");
  std::vector<int64_t> shape(dl.shape, dl.shape + dl.ndim);
  const int64_t bytes = TRY(ShapeBytes(shape, dl.dtype));
  char* data = dl.data ? static_cast<char*>(dl.data) + dl.byte_offset : nullptr;
  if (!data && bytes > 0) return Err("a DLPack tensor without data");
  const bool compact = bytes == 0 || IsCompact(dl);
  if (dl.device.device_type == kDLCPU) {
    if (compact) return View(data, std::move(shape), dl.dtype, std::move(owner));
    Tensor copy = TRY(Empty(std::move(shape), dl.dtype));
    CopyStrided(dl, data, static_cast<char*>(copy.data()));
    return copy;
  }
  if (!compact) {
    return Err("a DLPack tensor of ", DeviceText(dl.device),
               " must be compact and row-major; make it contiguous first");
  }
  return OnDevice(TRY(OpenDevice(dl.device)), data, std::move(shape), dl.dtype, std::move(owner));
}

Result<Tensor> Tensor::FromDLPack(DLManagedTensor* managed) {
  std::shared_ptr<void> owner(managed, [](void* p) {
    auto* tensor = static_cast<DLManagedTensor*>(p);
    if (tensor->deleter) tensor->deleter(tensor);
  });
  return FromDLTensor(managed->dl_tensor, std::move(owner));
}

Result<Tensor> Tensor::FromDLPack(DLManagedTensorVersioned* managed) {
  std::shared_ptr<void> owner(managed, [](void* p) {
    auto* tensor = static_cast<DLManagedTensorVersioned*>(p);
    if (tensor->deleter) tensor->deleter(tensor);
  });
  if (managed->version.major != kDLPackMajor)
    return Err("a DLPack tensor of version ", managed->version.major, "; this program reads version ", kDLPackMajor);
  Tensor tensor = TRY(FromDLTensor(managed->dl_tensor, std::move(owner)));
  return managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? tensor.ReadOnly() : tensor;
}

DLManagedTensor* Tensor::ToDLPack() const {
  auto* managed = new DLManagedTensor{};
  managed->dl_tensor = node_->dl;
  managed->manager_ctx = new Tensor(*this);
  managed->deleter = [](DLManagedTensor* self) {
    delete static_cast<Tensor*>(self->manager_ctx);
    delete self;
  };
  return managed;
}

DLManagedTensorVersioned* Tensor::ToVersionedDLPack() const {
  auto* managed = new DLManagedTensorVersioned{};
  managed->version = {kDLPackMajor, 0};
  managed->flags = read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  managed->dl_tensor = node_->dl;
  managed->manager_ctx = new Tensor(*this);
  managed->deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Tensor*>(self->manager_ctx);
    delete self;
  };
  return managed;
}

Tensor Tensor::ReadOnly() const {
  auto node = std::make_shared<Node>(*node_);
  node->dl.shape = node->shape.data();
  node->read_only = true;
  return Tensor(std::move(node));
}

Result<Tensor> Tensor::Reshape(std::vector<int64_t> shape) const {
  int64_t bytes = TRY(ShapeBytes(shape, dtype()));
  if (bytes != num_bytes()) return Err("cannot view ", TypeText(), " as shape ", ShapeText(shape));
  Tensor reshaped = TRY(node_->device ? OnDevice(node_->device, data(), std::move(shape), dtype(), node_->memory)
                                      : View(data(), std::move(shape), dtype(), node_->memory));
  return read_only() ? reshaped.ReadOnly() : reshaped;
}

Result<Tensor> Tensor::Copy() const { return FromBytes(shape(), dtype(), bytes()); }

}  // namespace autotune
