#include "codegen/c/gpu/opencl.h"

#include "support/check.h"

namespace autotune::c {

std::string OpenClC::Type(DType dtype) const {
  CHECK(dtype.lanes == 1) << "OpenCL C is written without vectors";
  return dtype.IsBool() ? "int" : MemoryType(dtype);
}

std::string OpenClC::MemoryType(DType element) const {
  if (element.IsBool()) return "uint8_t";
  if (element.IsHalf()) return "uint16_t";  // its bits
  if (element.IsFloat()) return element.bits == 64 ? "double" : "float";
  return std::string(element.code == TypeCode::kUInt ? "uint" : "int") + std::to_string(element.bits) + "_t";
}

std::string OpenClC::Pointer(DType element, bool written) const {
  return std::string("global ") + (written ? "" : "const ") + MemoryType(element) + "*";
}

std::string OpenClC::Parameter(const PointerParam& p, const std::string& id) const {
  return Pointer(p.buffer->dtype, p.written) + " restrict " + id;
}

// The emitters do not call the functions for vectors, since MaxLanes is 1.
std::string OpenClC::Vector(DType, std::span<const std::string>) const {
  CHECK(false) << "OpenCL C is written without vectors";
  return "";
}
std::string OpenClC::Lane(const std::string&, const std::string&) const { return Vector({}, {}); }
std::string OpenClC::Convert(const std::string&, DType) const { return Vector({}, {}); }
std::string OpenClC::Reinterpret(const std::string&, DType) const { return Vector({}, {}); }
std::string OpenClC::Load(DType, const std::string&) const { return Vector({}, {}); }
std::string OpenClC::Store(DType, const std::string&, const std::string&) const { return Vector({}, {}); }

// These functions round to nearest even and keep denormal numbers on every device (OpenCL C 2.0, 6.1.1.1). GPUs have an
// instruction for each.
std::string OpenClC::HalfConversion(DType to) const {
  if (to == DType::Float(32)) return "return vload_half(0, (const half*)&a);";
  return "uint16_t bits;\nvstore_half_rte(a, 0, (half*)&bits);\nreturn bits;";
}

std::string OpenClC::Call(Op op, DType) const {
  switch (op) {
    case Op::kSqrt:
      return "sqrt(a)";
    case Op::kAbs:
      return "fabs(a)";
    case Op::kFloor:
      return "floor(a)";
    case Op::kCeil:
      return "ceil(a)";
    case Op::kRound:
      return "rint(a)";
    case Op::kFma:
      return "fma(a, b, c)";
    default:
      CHECK(false) << Row(op).name << " was not expanded";
      return "";
  }
}

std::string OpenClC::Prefetch(Op, const std::string& pointer, const std::string& index) const {
  return "prefetch(" + pointer + " + (" + index + "), 1);";
}

std::string OpenClC::Barrier() const { return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"; }

std::string OpenClC::Prelude(const std::string& body) const {
  std::string text = "#pragma OPENCL FP_CONTRACT OFF\n";
  if (body.find("double") != std::string::npos) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  for (const char* sign : {"", "u"}) {
    for (const auto& [bits, name] : {std::pair("8", "char"), {"16", "short"}, {"32", "int"}, {"64", "long"}}) {
      const std::string type = std::string(sign) + "int" + bits + "_t";
      if (body.find(type) != std::string::npos) text += std::string("typedef ") + sign + name + " " + type + ";\n";
    }
  }
  return text + "\n";
}

}  // namespace autotune::c
