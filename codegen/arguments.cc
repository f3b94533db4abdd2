#include "codegen/arguments.h"

#include <algorithm>

#include "runtime/abi.h"
#include "support/join.h"

namespace autotune {

int64_t AlignmentOf(const Param& p) {
  return p.role == ParamRole::kConstant ? p.buffer->alignment : p.buffer->dtype.Bytes();
}

std::vector<ExpectedArgument> ExpectedArgumentsOf(const LoweredKernel& kernel) {
  std::vector<ExpectedArgument> expected;
  const std::string name = kernel.name.str();
  for (const Param& p : kernel.params) {
    ExpectedArgument e{"", p.buffer->dtype, ConstShape(p.buffer), AlignmentOf(p)};
    e.message = name + ": argument " + std::to_string(expected.size()) + " (" + p.buffer->name.str() + ") must be " +
                e.dtype.Text() + "[" + Joined(e.shape, ",") + "], compact, aligned to " + std::to_string(e.alignment) +
                (e.alignment == 1 ? " byte" : " bytes") + ", on the CPU";
    expected.push_back(std::move(e));
  }
  for (int64_t bytes : kernel.prepared) {
    expected.push_back({name + ": argument " + std::to_string(expected.size()) + " must be the prepared buffer u8[" +
                            std::to_string(bytes) + "] that " + name + ".prepare filled",
                        DType::UInt(8),
                        {bytes},
                        AT_ALIGNMENT});
  }
  return expected;
}

std::string WrongCountMessage(const LoweredKernel& kernel) {
  const size_t count = kernel.params.size() + kernel.prepared.size();
  return kernel.name.str() + " takes " + std::to_string(count) +
         " arguments: its parameters, then its prepared buffers";
}

uint32_t PackedDlType(DType dtype) {
  constexpr int kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4;
  uint32_t code = dtype.code == TypeCode::kBFloat ? kBFloat
                  : dtype.IsFloat()               ? kFloat
                  : dtype.code == TypeCode::kInt  ? kInt
                                                  : kUInt;
  uint32_t bits = dtype.IsBool() ? 1 : dtype.bits;
  return code | bits << 8 | 1u << 16;
}

BodyPointers BodyPointersOf(const LoweredKernel& kernel, const PrimFunc& f) {
  BodyPointers body;
  const Uses uses = UsesOf(f.body);
  for (size_t i = 0; i < f.params.size(); ++i) {
    const Buffer& buffer = f.params[i].buffer;
    auto used = uses.buffers.find(buffer->name);
    if (used == uses.buffers.end()) continue;
    PointerParam pointer = PointerOf(buffer, used->second.written);
    auto param = std::find_if(kernel.params.begin(), kernel.params.end(),
                              [&](const Param& p) { return p.buffer->name == buffer->name; });
    if (param != kernel.params.end()) pointer.alignment = AlignmentOf(*param);
    body.pointers.push_back(std::move(pointer));
    body.params.push_back(static_cast<int>(i));
  }
  body.workspace = LayOut(f.body);
  for (const Workspace::Slot& slot : body.workspace.slots) body.pointers.push_back(PointerOf(slot.buffer, true));
  return body;
}

}  // namespace autotune
