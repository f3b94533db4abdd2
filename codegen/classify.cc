#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "codegen/machine_code.h"

namespace autotune {
namespace {

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.starts_with(p); });
}
bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// An instruction's name and operands.
struct Parts {
  std::string_view name, operands;
};
Parts PartsOf(std::string_view text) {
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  const size_t begin = std::min(text.find_first_not_of(" \t", end), text.size());
  return {text.substr(0, end), text.substr(begin)};
}

// ---- x86-64, in AT&T's syntax

// Returns true for operands such as -24(%rsp): an offset from the stack pointer without an index.
bool IsX86Stack(std::string_view operands) { return Contains(operands, "(%rsp)"); }

Operation X86Operation(const Parts& parts) {
  std::string_view name = parts.name;
  if (StartsWithAny(name, {"j", "call", "ret"})) return Operation::kJump;
  if (StartsWithAny(name, {"vgather", "vpgather", "vscatter", "vpscatter"})) return Operation::kLane;
  const bool vector_registers = Contains(parts.operands, "mm");
  if (!vector_registers) {
    if (StartsWithAny(name, {"mov", "push", "pop", "cmov", "kmov", "prefetch", "vzero", "set", "xchg"}))
      return Operation::kMove;
    if (StartsWithAny(name, {"k", "nop", "endbr", "data16", "ud2", "sfence"})) return Operation::kOther;
    return Operation::kInteger;
  }
  if (name.starts_with("v")) name.remove_prefix(1);
  if (StartsWithAny(name, {"insertps", "pinsr", "pextr", "extractps"})) return Operation::kLane;
  // A load or store of one element. Between registers these instructions move whole vectors or bits.
  const bool memory = Contains(parts.operands, "(");
  if (StartsWithAny(name, {"movss", "movsd", "movd", "movq", "movlps", "movhps", "movlpd", "movhpd"}))
    return memory ? Operation::kLane : Operation::kMove;
  if (StartsWithAny(name, {"mov",   "pmov",   "lddqu",  "broadcast", "pbroadcast", "perm",   "shuf", "pshuf",
                           "unpck", "punpck", "insert", "extract",   "blend",      "pblend", "pack", "palignr",
                           "align", "pslldq", "psrldq", "expand",    "compress",   "dbpsad"}))
    return Operation::kMove;
  if (name.starts_with("p") && !name.starts_with("pr")) return Operation::kVectorArithmetic;  // integers in vectors
  if (StartsWithAny(name, {"ucomis", "comis"}) || name.ends_with("ss") || name.ends_with("sd") || name.ends_with("sh"))
    return Operation::kScalarArithmetic;
  if (StartsWithAny(name, {"cvtsi2", "cvtusi2", "cvtss2", "cvtsd2", "cvttss2", "cvttsd2"}))
    return Operation::kScalarArithmetic;
  return Operation::kVectorArithmetic;
}

// ---- AArch64

// Returns true if the text names a vector register with its arrangement, such as v0.4s or z3.s.
bool HasArmVector(std::string_view operands) {
  for (size_t at = operands.find('.'); at != std::string_view::npos; at = operands.find('.', at + 1)) {
    size_t begin = at;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(operands[begin - 1]))) --begin;
    if (begin > 0 && begin < at && (operands[begin - 1] == 'v' || operands[begin - 1] == 'z')) return true;
  }
  return false;
}

Operation ArmOperation(const Parts& parts) {
  const std::string_view name = parts.name, operands = parts.operands;
  if (name == "b" || name.starts_with("b.") || StartsWithAny(name, {"bl", "br", "ret", "cb", "tb"}))
    return Operation::kJump;
  const bool vector = HasArmVector(operands);
  const bool lane = vector && Contains(operands, "}[");
  if (StartsWithAny(name, {"ld", "st"})) return lane ? Operation::kLane : Operation::kMove;
  if (StartsWithAny(name, {"mov", "dup", "zip", "uzp", "trn", "ext", "tbl", "ins", "umov", "smov", "fmov", "rev",
                           "prfm", "csel", "adrp", "adr", "xtn"})) {
    return StartsWithAny(name, {"ins", "umov", "smov"}) ? Operation::kLane : Operation::kMove;
  }
  if (vector) return Operation::kVectorArithmetic;
  if (name.starts_with("f") || StartsWithAny(name, {"scvtf", "ucvtf"})) return Operation::kScalarArithmetic;
  return StartsWithAny(name, {"nop", "hint", "dmb", "bti"}) ? Operation::kOther : Operation::kInteger;
}

// ---- RISC-V

Operation RiscvOperation(const Parts& parts) {
  const std::string_view name = parts.name;
  if (StartsWithAny(name, {"beq", "bne", "blt", "bge", "bgt", "ble", "j", "call", "ret", "tail", "c.b", "c.j"}))
    return Operation::kJump;
  if (StartsWithAny(name, {"vlse", "vluxei", "vloxei", "vsse", "vsuxei", "vsoxei"})) return Operation::kLane;
  if (StartsWithAny(name, {"vset", "vl", "vse", "vs1r", "vs2r", "vs4r", "vs8r", "vmv", "vslide", "vrgather"}))
    return Operation::kMove;
  if (name.starts_with("v")) return Operation::kVectorArithmetic;
  if (StartsWithAny(name, {"fl", "fs", "fmv"}) && !StartsWithAny(name, {"fsub", "fsqrt", "fsgn", "flt", "fle"}))
    return Operation::kMove;
  if (name.starts_with("f")) return name.starts_with("fence") ? Operation::kOther : Operation::kScalarArithmetic;
  return StartsWithAny(name, {"l", "s", "mv", "c.l", "c.s", "c.mv"}) &&
                 !StartsWithAny(name, {"sub", "sl", "sr", "sext"})
             ? Operation::kMove
             : Operation::kInteger;
}

}  // namespace

std::vector<int64_t> CountByRegion(const std::vector<CodeRegion>& code, std::span<const uint64_t> addresses) {
  std::unordered_map<uint64_t, size_t> region_of;
  for (size_t r = 0; r < code.size(); ++r) {
    for (const Instruction& instruction : code[r].instructions) region_of[instruction.address] = r;
  }
  std::vector<int64_t> counts(code.size(), 0);
  for (const uint64_t address : addresses) {
    if (auto found = region_of.find(address); found != region_of.end()) ++counts[found->second];
  }
  return counts;
}

Instruction ClassifyInstruction(std::string_view text, std::string_view triple) {
  const Parts parts = PartsOf(text);
  Instruction instruction{.text = std::string(text)};
  if (triple.starts_with("x86_64")) {
    instruction.operation = X86Operation(parts);
    instruction.stack = IsX86Stack(parts.operands);
  } else if (triple.starts_with("aarch64")) {
    instruction.operation = ArmOperation(parts);
    instruction.stack = Contains(parts.operands, "[sp");
  } else if (triple.starts_with("riscv64")) {
    instruction.operation = RiscvOperation(parts);
    instruction.stack = Contains(parts.operands, "(sp)");
  }
  return instruction;
}

}  // namespace autotune
