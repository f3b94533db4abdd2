// Tensor: a reference-counted handle of a compact, row-major DLPack tensor in the memory of the host or of another
// device. Copies of a handle share the data. Handles may be copied on any thread; access to the data is not
// synchronised. This file also has the texts of element types.
#pragma once
#include <dlpack/dlpack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dlpack_versioned.h"
#include "support/result.h"

namespace autotune {

class Device;
using DevicePtr = std::shared_ptr<Device>;  // runtime/device.h

// Convert between element types and their texts, such as {kDLFloat, 32, 1} and "f32" (ir/dtype.h). bool is {kDLUInt, 1,
// 1} and takes one byte per element.
Result<DLDataType> DataTypeFromText(std::string_view text);
std::string DataTypeText(DLDataType type);
inline int64_t DataTypeBytes(DLDataType type) { return (int64_t{type.bits} * type.lanes + 7) / 8; }
inline bool operator==(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Returns a text such as "[1, 3, 224, 224]".
std::string ShapeText(const std::vector<int64_t>& shape);
// Returns the bytes of a tensor of this shape and type. Returns an error for a negative dimension or more than 2^62
// bytes.
Result<int64_t> ShapeBytes(const std::vector<int64_t>& shape, DLDataType type);

// Returns uninitialised memory, aligned to 64 bytes; large blocks are aligned to 2 MiB and may use huge pages. Returns
// null if out of memory.
std::shared_ptr<void> AllocateAligned(int64_t bytes);

class Tensor {
 public:
  Tensor() = default;  // null: only defined(), assignment and comparison with another handle are allowed

  // Allocates an uninitialised tensor, aligned to 64 bytes, in the host's memory.
  static Result<Tensor> Empty(std::vector<int64_t> shape, DLDataType type);
  static Result<Tensor> Empty(std::vector<int64_t> shape, std::string_view type);
  static Result<Tensor> Zeros(std::vector<int64_t> shape, std::string_view type);
  // Makes a tensor with a copy of `bytes`, whose size must match.
  static Result<Tensor> FromBytes(std::vector<int64_t> shape, DLDataType type, std::string_view bytes);
  // Makes a tensor over memory of the caller, which must have the right size. The tensor holds `keep_alive`, which may
  // be null.
  static Result<Tensor> View(void* data, std::vector<int64_t> shape, DLDataType type, std::shared_ptr<void> keep_alive);
  // Makes a tensor in the memory of `device`, which must not be the host. `data` is an address of that device.
  static Result<Tensor> OnDevice(DevicePtr device, void* data, std::vector<int64_t> shape, DLDataType type,
                                 std::shared_ptr<void> keep_alive);
  // Takes over a DLPack tensor and calls its deleter when done, also after an error. A tensor in the host's memory is
  // copied unless it is compact and row-major. A tensor of another device must be compact and row-major; its device is
  // opened through the registry (runtime/device.h).
  static Result<Tensor> FromDLPack(DLManagedTensor* managed);
  static Result<Tensor> FromDLPack(DLManagedTensorVersioned* managed);
  // Return a DLPack handle that shares the data. The receiver must call its deleter. The unversioned form cannot say
  // that a tensor is read-only.
  DLManagedTensor* ToDLPack() const;
  DLManagedTensorVersioned* ToVersionedDLPack() const;
  // Makes a tensor over memory of the host with strides, in elements. It shares the memory if it is compact and
  // row-major; otherwise it is a copy, and `keep_alive` is not kept.
  static Result<Tensor> Strided(void* data, std::vector<int64_t> shape, std::vector<int64_t> strides, DLDataType type,
                                std::shared_ptr<void> keep_alive);
  // Returns a tensor over the same memory that nothing may write to.
  Tensor ReadOnly() const;

  bool defined() const { return node_ != nullptr; }
  bool read_only() const { return node_->read_only; }
  Device* device() const { return node_->device.get(); }  // device that has the memory; null: the host
  void* data() const { return node_->dl.data; }           // address in the memory of device()
  template <class T>
  T* Data() const {  // only for a tensor in the host's memory
    CHECK(!node_->device) << "the host cannot read a tensor of another device";
    CHECK(static_cast<int64_t>(sizeof(T)) == DataTypeBytes(dtype())) << "element size of " << DataTypeText(dtype());
    return static_cast<T*>(data());
  }
  const std::vector<int64_t>& shape() const { return node_->shape; }
  DLDataType dtype() const { return node_->dl.dtype; }
  int64_t num_elements() const { return node_->elements; }
  int64_t num_bytes() const { return node_->elements * DataTypeBytes(dtype()); }
  std::string_view bytes() const {  // only for a tensor in the host's memory
    CHECK(!node_->device) << "the host cannot read a tensor of another device";
    return {static_cast<const char*>(data()), static_cast<size_t>(num_bytes())};
  }
  const DLTensor* dl() const { return &node_->dl; }
  long use_count() const { return node_.use_count(); }

  // Returns a tensor that shares the data under another shape with as many elements.
  Result<Tensor> Reshape(std::vector<int64_t> shape) const;
  // Returns a deep copy of a tensor in the host's memory.
  Result<Tensor> Copy() const;
  // Returns a text such as "f32[1, 10]".
  std::string TypeText() const { return DataTypeText(dtype()) + ShapeText(shape()); }
  bool SameHandle(const Tensor& other) const { return node_ == other.node_; }

 private:
  struct Node {
    DLTensor dl{};
    std::vector<int64_t> shape;
    int64_t elements = 0;
    std::shared_ptr<void> memory;
    DevicePtr device;  // null: the host
    bool read_only = false;
  };
  explicit Tensor(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  static Result<Tensor> FromDLTensor(const DLTensor& dl, std::shared_ptr<void> owner);
  std::shared_ptr<Node> node_;
};

}  // namespace autotune
