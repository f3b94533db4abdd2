#include "codegen/c/c99.h"

#include "codegen/c/helpers.h"
#include "support/check.h"
#include "support/join.h"

namespace autotune::c {
namespace {

constexpr int kLaneBits = 32;  // width of the elements for which a register holds MaxLanes() lanes

// Returns the suffix of x86's builtins for vectors of f32 (ps) or f64 (pd).
const char* PackedSuffix(DType type) { return type.bits == 32 ? "ps" : "pd"; }

// Returns a mask in which all lanes of a 512-bit register are set.
const char* AllLanes(DType type) { return type.bits == 32 ? "0xffff" : "0xff"; }

constexpr const char* kGcc = "defined(__GNUC__) && !defined(__clang__)";
constexpr int kRegisterBits = 512;
constexpr const char* kCurrentRounding = "4";  // _MM_FROUND_CUR_DIRECTION

std::string ScalefOf(DType type, const std::string& a, const std::string& b, const std::string& zero) {
  return std::string("__builtin_ia32_scalef") + PackedSuffix(type) + "512_mask(" + a + ", " + b + ", " + zero + ", " +
         AllLanes(type) + ", " + kCurrentRounding + ")";
}

}  // namespace

int C99::MaxLanes() const { return target_.vector_types ? std::max(1, target_.VectorLanes(kLaneBits)) : 1; }

std::string C99::Type(DType dtype) const {
  if (dtype.IsHalf()) return Type(DType::UInt(16).WithLanes(dtype.lanes));
  if (dtype.lanes > 1) return TypeName(dtype.IsBool() ? MaskOf(dtype.lanes) : dtype);
  return dtype.IsBool() ? "int" : MemoryType(dtype);
}

std::string C99::MemoryType(DType element) const {
  if (element.IsBool()) return "uint8_t";
  if (element.IsHalf()) return "uint16_t";  // its bits
  if (element.IsFloat()) return element.bits == 64 ? "double" : "float";
  return std::string(element.code == TypeCode::kUInt ? "uint" : "int") + std::to_string(element.bits) + "_t";
}

std::string C99::Pointer(DType element, bool written) const {
  return (written ? "" : "const ") + MemoryType(element) + "*";
}

std::string C99::Parameter(const PointerParam& p, const std::string& id) const {
  return Pointer(p.buffer->dtype, p.written) + " restrict " + id;
}

std::string C99::Vector(DType type, std::span<const std::string> lanes) const {
  return "(" + Type(type) + "){" + Joined(lanes) + "}";
}

std::string C99::Lane(const std::string& vector, const std::string& lane) const { return vector + "[" + lane + "]"; }

std::string C99::Convert(const std::string& value, DType to) const {
  return "__builtin_convertvector(" + value + ", " + Type(to) + ")";
}

std::string C99::Reinterpret(const std::string& value, DType to) const { return "(" + Type(to) + ")" + value; }

std::string C99::Load(DType type, const std::string& pointer) const {
  return "*(const " + Type(type) + "_at*)" + pointer;
}

std::string C99::Store(DType type, const std::string& pointer, const std::string& value) const {
  return "*(" + Type(type) + "_at*)" + pointer + " = " + value + ";";
}

std::string C99::HalfConversion(DType to) const {
  CHECK(false) << "C has no conversion to " << to.Text();
  return "";
}

std::string C99::Call(Op op, DType type) const {
  const std::string suffix = type.bits == 64 ? "(a)" : "f(a)";
  switch (op) {
    case Op::kSqrt:
      return "__builtin_sqrt" + suffix;
    case Op::kAbs:
      return "__builtin_fabs" + suffix;
    case Op::kFloor:
      return "__builtin_floor" + suffix;
    case Op::kCeil:
      return "__builtin_ceil" + suffix;
    case Op::kRound:  // rint uses the current rounding mode, which is always to nearest, ties to even
      return "__builtin_rint" + suffix;
    case Op::kFma:
      CHECK(target_.has_fma) << "fma without the instruction would call the math library";
      return type.bits == 64 ? "__builtin_fma(a, b, c)" : "__builtin_fmaf(a, b, c)";
    case Op::kLdexp: {
      CHECK(target_.has_ldexp) << "ldexp without the instruction would call the math library";
      const std::string whole = "(" + Type(type.WithLanes(kRegisterBits / type.bits)) + "){";
      return Lane(ScalefOf(type, whole + "a}", whole + "b}", whole + "0}"), "0");
    }
    default:
      CHECK(false) << Row(op).name << " was not expanded";
      return "";
  }
}

// Returns the body of a load of the lanes that a mask selects. Processors with AVX have an instruction for such a load.
Dialect::Body C99::MaskedLoadBody(DType type) const {
  const int bits = type.bits * type.lanes;
  if (!IsX86() || target_.vector_bits < 256 || !type.IsFloat() || type.IsHalf() || bits < 128) return {};
  const DType lanes = DType::Int(type.bits).WithLanes(type.lanes);
  if (bits > 512) return {};
  // The builtins take vectors of long long; int64_t may be another type.
  const std::string wide = "(__attribute__((vector_size(" + std::to_string(bits / 8) + "))) long long)";
  const std::string mask = type.bits == 32 ? "mask" : wide + Convert("mask", lanes);
  if (bits == 512) {
    const char* element = type.bits == 32 ? "d" : "q";
    return {kGcc, "return __builtin_ia32_loadu" + std::string(PackedSuffix(type)) + "512_mask(p + begin, (" +
                      Type(type) + "){0}, __builtin_ia32_ptestm" + element + "512(" + mask + ", " + mask + ", " +
                      AllLanes(type) + "));"};
  }
  return {kGcc, std::string("return __builtin_ia32_maskload") + PackedSuffix(type) + (bits == 256 ? "256" : "") +
                    "((const " + Type(type) + "*)(p + begin), " + mask + ");"};
}

Dialect::Body C99::VectorBody(std::string_view function, DType type) const {
  const int bits = type.bits * type.lanes;
  if (function == "load_masked") return MaskedLoadBody(type);
  if (!IsX86() || !type.IsFloat() || type.IsHalf()) return {};
  if (function == "ldexp") {
    // Works on whole registers and fills the lanes beyond the end with 0.
    const int whole = kRegisterBits / type.bits;
    const DType wide = type.WithLanes(whole);
    auto part = [&](const char* v, int begin) {
      std::vector<std::string> lanes;
      for (int i = begin; i < std::min<int>(begin + whole, type.lanes); ++i)
        lanes.push_back(Lane(v, std::to_string(i)));
      return static_cast<int>(type.lanes) == whole ? std::string(v) : Vector(wide, lanes);
    };
    std::string lines = Type(type) + " r = a;\n";
    for (int begin = 0; begin < type.lanes; begin += whole) {
      const std::string value = ScalefOf(type, part("a", begin), part("b", begin), "(" + Type(wide) + "){0}");
      if (type.lanes == whole) return {"", "return " + value + ";"};
      const std::string id = "part" + std::to_string(begin);
      lines += "const " + Type(wide) + " " + id + " = " + value + ";\n";
      for (int i = begin; i < std::min<int>(begin + whole, type.lanes); ++i)
        lines += Lane("r", std::to_string(i)) + " = " + Lane(id, std::to_string(i - begin)) + ";\n";
    }
    return {"", lines + "return r;"};
  }
  // GCC also compiles loops over lanes to the instructions below, but then takes six times as long for a whole kernel.
  if (function != "abs" && bits != 128 && bits != 256 && bits != 512) return {};
  if (function != "abs" && bits > target_.vector_bits) return {};  // no instruction for such long vectors
  const std::string suffix = std::string(PackedSuffix(type)) + (bits == 512 ? "512_mask" : bits == 256 ? "256" : "");
  const std::string rounding = std::string(", ") + AllLanes(type) + ", " + kCurrentRounding;
  if (function == "fma")
    return {kGcc, "return __builtin_ia32_vfmadd" + suffix + "(a, b, c" + (bits == 512 ? rounding : "") + ");"};
  if (function == "abs") {
    return {"", "return (" + Type(type) + ")((" + Type(DType::Int(type.bits).WithLanes(type.lanes)) +
                    (type.bits == 32 ? ")a & 0x7fffffff);" : ")a & 0x7fffffffffffffff);")};
  }
  if (function == "sqrt") {
    return {kGcc, "return __builtin_ia32_sqrt" + suffix + "(a" +
                      (bits == 512 ? ", (" + Type(type) + "){0}" + rounding : "") + ");"};
  }
  // The rounding mode, with the bit that suppresses the exception for inexact results.
  const char* direction = function == "floor" ? "9" : function == "ceil" ? "10" : function == "round" ? "8" : nullptr;
  if (direction && bits < 512) return {kGcc, "return __builtin_ia32_round" + suffix + "(a, " + direction + ");"};
  if (direction) {
    return {kGcc, std::string("return __builtin_ia32_rndscale") + PackedSuffix(type) + "_mask(a, " + direction + ", (" +
                      Type(type) + "){0}" + rounding + ");"};
  }
  if (function != "min" && function != "max") return {};
  return {kGcc, "return __builtin_ia32_" + std::string(function) + suffix + "(a, b" +
                    (bits == 512 ? ", (" + Type(type) + "){0}" + rounding : "") + ");"};
}

std::string C99::Prefetch(Op op, const std::string& pointer, const std::string& index) const {
  constexpr const char *kInAllCaches = "3", *kInOuterCaches = "2";
  return "__builtin_prefetch((const void*)((uintptr_t)" + pointer + " + sizeof *" + pointer + " * (uintptr_t)(" +
         index + ")), " + (op == Op::kPrefetchWrite ? "1" : "0") + ", " +
         (op == Op::kPrefetchFar ? kInOuterCaches : kInAllCaches) + ");";
}

std::string C99::Barrier() const {
  CHECK(false) << "a CPU has no threads that wait for each other";
  return "";
}

std::string C99::MarkLoop(const std::string& name) const {
  // Without vector types the compiler alone decides which values are in registers, so there is nothing to report.
  return target_.vector_types ? "__asm__ volatile(\"# " + std::string(kLoopMark) + name + "\");" : "";
}

std::string C99::Prelude(const std::string& body, const std::vector<std::string>& features) const {
  std::string list = Joined(features, ",");
  // Every x86-64 processor decodes prefetchw, even if its features do not name it.
  if (IsX86()) list += (list.empty() ? "" : ",") + std::string("prfchw");
  std::string text;
  text += "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n";
  if (IsX86()) {
    text += "#pragma clang attribute push(__attribute__((target(\"" + list + "\"))), apply_to = function)\n";
  }
  text += "#elif defined(__GNUC__)\n";
  if (IsX86()) {
    text += "#pragma GCC target(\"" + list + ",prefer-vector-width=" + std::to_string(target_.vector_bits) + "\")\n";
  }
  text += "#pragma GCC optimize(\"fp-contract=off\", \"no-math-errno\", \"no-trapping-math\")\n";
  // Keeps GCC from turning loops into calls of memset and memcpy, and branches in loops into masked loads. GCC 12 takes
  // the wrong lanes of a mask of bytes when it unrolls a short loop with masked loads (CSource.ChoicesInShortLoops).
  text += "#pragma GCC optimize(\"no-tree-loop-distribute-patterns\", \"no-tree-loop-if-convert\")\n";
  text += "#pragma GCC diagnostic ignored \"-Wpsabi\"\n#endif\n\n#include <stdint.h>\n\n";
  if (!target_.vector_types) return text;
  std::string vectors;
  constexpr DType kElements[] = {DType::Float(32), DType::Float(64), DType::Int(8),   DType::Int(16),  DType::Int(32),
                                 DType::Int(64),   DType::UInt(8),   DType::UInt(16), DType::UInt(32), DType::UInt(64)};
  for (const DType& element : kElements) {
    for (int lanes = 2; lanes <= std::max(MaxLanes(), 2); lanes *= 2) {
      const DType type = element.WithLanes(lanes);
      const std::string name = Type(type);
      if (body.find(name) == std::string::npos) continue;
      const std::string size = "vector_size(" + std::to_string(type.Bytes()) + ")";
      vectors += "typedef " + MemoryType(element) + " " + name + " __attribute__((" + size + "));\n";
      if (body.find(name + "_at*") == std::string::npos) continue;
      vectors += "typedef " + MemoryType(element) + " " + name + "_at __attribute__((" + size + ", aligned(" +
                 std::to_string(element.Bytes()) + "), may_alias));\n";
    }
  }
  if (!vectors.empty())
    text +=
        "/* Vector types, and vectors in memory (_at), which have the alignment of one element. */\n" + vectors + "\n";
  return text;
}

std::string C99::Epilogue() const {
  return IsX86() ? "\n#if defined(__clang__)\n#pragma clang attribute pop\n#endif\n" : "";
}

}  // namespace autotune::c
