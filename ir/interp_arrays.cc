// Buffers of the interpreter: allocates their memory, and copies arguments into and out of it.
#include <cmath>
#include <limits>

#include "ir/interp_machine.h"

namespace autotune::interp {

constexpr int64_t kMaxElements = int64_t{1} << 28;  // of one buffer

void Machine::BindShape(const Buffer& buffer, const InterpArray& array) {
  if (array.shape.size() != buffer->shape.size()) {
    return Fail("argument " + buffer->name.str() + " has " + std::to_string(array.shape.size()) + " dimensions, not " +
                std::to_string(buffer->shape.size()));
  }
  for (size_t d = 0; d < array.shape.size(); ++d) {
    const Var* var = buffer->shape[d].As<Var>();
    if (var && !Find(var->name)) Push(var->name, Scalar{array.shape[d], 0});
  }
}

Memory* Machine::Declare(const Buffer& buffer) {
  auto memory = std::make_shared<Memory>();
  memory->buffer = buffer;
  int64_t size = 1;
  for (const Expr& extent : buffer->shape) {
    int64_t value = EvalInt(extent);
    if (ok() && (value < 0 || value > kMaxElements))
      Fail("extent " + std::to_string(value) + " of " + buffer->name.str());
    if (!ok()) return nullptr;
    memory->shape.push_back(value);
    size = std::min(size * value, kMaxElements + 1);
  }
  if (buffer->strides.empty()) {
    if (size == 0 || size > kMaxElements) {
      memory->strides.assign(memory->shape.size(), 1);  // of nothing, or refused below
    } else {
      memory->strides = StridesOf(memory->shape, buffer->dim_align);
      if (!memory->shape.empty()) size = memory->shape[0] * memory->strides[0];
    }
  } else if (buffer->strides.size() != buffer->shape.size()) {
    Fail("buffer " + buffer->name.str() + " must have one stride per dimension, or none");
    return nullptr;
  } else {
    size = 1;
    for (size_t d = 0; d < buffer->strides.size(); ++d) {
      int64_t stride = EvalInt(buffer->strides[d]);
      if (ok() && (stride < 0 || stride > kMaxElements))
        Fail("a stride of " + buffer->name.str() + " is negative or too large");
      if (!ok()) return nullptr;
      memory->strides.push_back(stride);
      size = std::min(size + (memory->shape[d] - 1) * stride, kMaxElements + 1);
      if (memory->shape[d] == 0) size = 0;
    }
  }
  if (size > kMaxElements) {
    Fail("buffer " + buffer->name.str() + " is too large to interpret");
    return nullptr;
  }
  memory->data.resize(size);
  memory->written.assign(size, false);
  if (options_.detect_races) memory->accesses.resize(size);
  if (has_threads_ && options_.detect_races && buffer->scope != Scope::kGlobal) memory->owners.assign(size, -1);
  Memory* raw = memory.get();
  memories_[buffer->name] = std::move(memory);
  return raw;
}

// f(position in the array, position in memory) for each element.
template <class F>
static void EachElement(const Memory& memory, F&& f) {
  std::vector<int64_t> at(memory.shape.size(), 0);
  int64_t count = 1;
  for (int64_t extent : memory.shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * memory.strides[d];
    f(i, offset);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == memory.shape[d];) at[d] = 0;
  }
}

void Machine::Import(const Param& param, const InterpArray& array) {
  const Buffer& buffer = param.buffer;
  if (array.dtype != buffer->dtype) {
    return Fail("argument " + buffer->name.str() + " is " + array.dtype.Text() + ", not " + buffer->dtype.Text());
  }
  Memory* memory = Declare(buffer);
  if (!memory) return;
  if (memory->shape != array.shape) return Fail("argument " + buffer->name.str() + " has another shape");
  int64_t count = 1;
  for (int64_t extent : array.shape) count *= extent;
  if (param.role == ParamRole::kOutput) return;
  if (static_cast<int64_t>(array.data.size()) != count) {
    return Fail("argument " + buffer->name.str() + " holds " + std::to_string(array.data.size()) + " elements");
  }
  bool is_float = array.dtype.IsFloat();
  EachElement(*memory, [&](int64_t i, int64_t at) {
    if (is_float) {
      memory->data[at].f = array.data[i];
    } else {
      memory->data[at].i = static_cast<int64_t>(array.data[i]);
    }
    memory->written[at] = true;
  });
}

void Machine::Export(const Param& param, InterpArray& array) {
  const Memory& memory = *memories_.at(param.buffer->name);
  int64_t count = 1;
  for (int64_t extent : array.shape) count *= extent;
  array.data.assign(count, 0);
  bool is_float = array.dtype.IsFloat();
  double poison = is_float ? std::numeric_limits<double>::quiet_NaN()
                           : (array.dtype.code == TypeCode::kUInt || array.dtype.IsBool()
                                  ? 0
                                  : -std::ldexp(1.0, std::min<int>(array.dtype.bits, 54) - 1));
  EachElement(memory, [&](int64_t i, int64_t at) {
    const Scalar& value = memory.data[at];
    array.data[i] = !memory.written[at] ? poison : is_float ? value.f : static_cast<double>(value.i);
  });
}

}  // namespace autotune::interp
