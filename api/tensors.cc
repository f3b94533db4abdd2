// Tensors, element types, devices and lists of texts of the C API.
#include <cstdio>
#include <cstring>

#include "api/handles.h"
#include "runtime/device.h"

namespace autotune::api {
namespace {

Result<std::vector<int64_t>> ShapeOf(const int64_t* shape, int32_t ndim) {
  if (ndim < 0 || ndim > 64) return Invalid("a tensor has 0 to 64 dimensions, not ", ndim);
  if (ndim > 0) TRY(NotNull(shape, "shape"));
  return std::vector<int64_t>(shape, shape + ndim);
}

Status CheckType(autotune_dtype type) {
  if (DataTypeFromText(DataTypeText(FromC(type))).ok()) return {};
  return Invalid("no tensor has the element type ", DataTypeText(FromC(type)));
}

// Gives a new handle of a tensor that a call has made. A refused tensor is the caller's fault.
Status Give(Result<Tensor> made, autotune_tensor** out) {
  if (!made.ok()) {
    Error error = made.error();
    if (error.kind == ErrorKind::kOther) error.kind = ErrorKind::kInvalidArgument;
    return error;
  }
  *out = new autotune_tensor{std::move(*made)};
  return {};
}

Result<DLDevice> DeviceFromText(const std::string& text) {
  if (text == "cpu" || text == "cpu:0") return DLDevice{kDLCPU, 0};
  const Result<DeviceChoice> choice = DeviceChoiceFromText(text);
  if (!choice.ok()) return Invalid(choice.error().Text());
  if (choice->type == kDLCPU) return Invalid("this machine has one CPU device, cpu:0");
  return TRY(OpenChosenDevice(*choice))->dl();
}

Status Borrow(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim, autotune_dtype dtype,
              int32_t flags, std::shared_ptr<void> keep_alive, autotune_tensor** out) {
  std::vector<int64_t> extents = TRY(ShapeOf(shape, ndim));
  if (flags & ~AUTOTUNE_READ_ONLY) return Invalid("unknown flags ", flags);
  TRY(CheckType(dtype));
  const Result<int64_t> bytes = ShapeBytes(extents, FromC(dtype));
  if (!bytes.ok()) return Invalid(bytes.error().Text());
  if (*bytes > 0) TRY(NotNull(data, "data"));
  Result<Tensor> made =
      strides ? Tensor::Strided(data, extents, {strides, strides + ndim}, FromC(dtype), std::move(keep_alive))
              : Tensor::View(data, extents, FromC(dtype), std::move(keep_alive));
  if (made.ok() && flags & AUTOTUNE_READ_ONLY) made = made->ReadOnly();
  return Give(std::move(made), out);
}

// Calls release(owner) at its end, once it is armed.
struct Owner {
  void (*release)(void*) = nullptr;
  void* owner = nullptr;
  ~Owner() {
    if (release) release(owner);
  }
};

}  // namespace
}  // namespace autotune::api

using namespace autotune;       // NOLINT: the functions of the API lie in the global namespace
using namespace autotune::api;  // NOLINT

extern "C" {

int autotune_dtype_from_text(const char* text, autotune_dtype* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(text, "text"));
    TRY(NotNull(out, "out"));
    const Result<DLDataType> type = DataTypeFromText(text);
    if (!type.ok()) return Invalid(type.error().Text());
    *out = ToC(*type);
    return {};
  });
}

int autotune_dtype_to_text(autotune_dtype dtype, char* buffer, size_t size) {
  return Guard([&]() -> Status {
    TRY(NotNull(buffer, "buffer"));
    const std::string text = DataTypeText(FromC(dtype));
    if (text.size() >= size) return Invalid("the text of an element type takes ", text.size() + 1, " bytes");
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return {};
  });
}

int autotune_device_from_text(const char* text, autotune_device* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(text, "text"));
    TRY(NotNull(out, "out"));
    *out = ToC(TRY(DeviceFromText(text)));
    return {};
  });
}

size_t autotune_names_size(const autotune_names* names) { return names ? names->texts.size() : 0; }
const char* autotune_names_at(const autotune_names* names, size_t index) {
  return index < autotune_names_size(names) ? names->texts[index].c_str() : nullptr;
}
void autotune_names_free(autotune_names* names) { Free(names); }

int autotune_tensor_create(const int64_t* shape, int32_t ndim, autotune_dtype dtype, autotune_tensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(out, "out"));
    std::vector<int64_t> extents = TRY(ShapeOf(shape, ndim));
    TRY(CheckType(dtype));
    return Give(Tensor::Empty(std::move(extents), FromC(dtype)), out);
  });
}

int autotune_tensor_borrow(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim, autotune_dtype dtype,
                           int32_t flags, void (*release)(void* owner), void* owner, autotune_tensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(out, "out"));
    const auto keep = std::make_shared<Owner>();
    TRY(Borrow(data, shape, strides, ndim, dtype, flags, keep, out));
    keep->owner = owner;  // armed only now, since an error leaves the memory to the caller
    keep->release = release;
    return {};
  });
}

int autotune_tensor_from_dlpack(struct DLManagedTensor* managed, autotune_tensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(managed, "managed"));
    Result<Tensor> tensor = Tensor::FromDLPack(managed);
    TRY(NotNull(out, "out"));
    return Give(std::move(tensor), out);
  });
}

int autotune_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned* managed, autotune_tensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(managed, "managed"));
    Result<Tensor> tensor = Tensor::FromDLPack(managed);
    TRY(NotNull(out, "out"));
    return Give(std::move(tensor), out);
  });
}

int autotune_tensor_to_dlpack(const autotune_tensor* tensor, struct DLManagedTensor** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(tensor, "tensor"));
    TRY(NotNull(out, "out"));
    if (tensor->tensor.read_only())
      return Invalid("the tensor is read-only, which only autotune_tensor_to_dlpack_versioned can say");
    *out = tensor->tensor.ToDLPack();
    return {};
  });
}

int autotune_tensor_to_dlpack_versioned(const autotune_tensor* tensor, struct DLManagedTensorVersioned** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(tensor, "tensor"));
    TRY(NotNull(out, "out"));
    *out = tensor->tensor.ToVersionedDLPack();
    return {};
  });
}

int autotune_tensor_get_info(const autotune_tensor* tensor, autotune_tensor_info* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(tensor, "tensor"));
    TRY(NotNull(out, "out"));
    const Tensor& t = tensor->tensor;
    *out = {.data = t.data(),
            .shape = t.shape().data(),
            .ndim = static_cast<int32_t>(t.shape().size()),
            .dtype = ToC(t.dtype()),
            .device = ToC(t.dl()->device),
            .size_bytes = t.num_bytes(),
            .flags = t.read_only() ? AUTOTUNE_READ_ONLY : 0};
    return {};
  });
}

int autotune_tensor_copy(const autotune_tensor* from, autotune_tensor* to) {
  return Guard([&]() -> Status {
    TRY(NotNull(from, "from"));
    TRY(NotNull(to, "to"));
    const Tensor &source = from->tensor, &target = to->tensor;
    if (!(source.dtype() == target.dtype()) || source.shape() != target.shape())
      return Invalid("cannot copy ", source.TypeText(), " into ", target.TypeText());
    if (target.read_only()) return Invalid("cannot copy into a read-only tensor");
    return CopyTensor(source, target);
  });
}

void autotune_tensor_free(autotune_tensor* tensor) { Free(tensor); }

}  // extern "C"
