#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <map>
#include <optional>
#include <set>

#include "codegen/llvm/machine.h"
#include "codegen/machine_code.h"

namespace autotune {
namespace {

// A decoded instruction, and where it may go.
struct Decoded {
  Instruction instruction;
  uint64_t size = 0;
  bool ends = false;                       // the next instruction does not follow: a jump or a return
  std::optional<uint64_t> jump, function;  // target of a jump; a function that it calls or takes the address of
};

// The executable bytes of a library.
struct CodeSection {
  uint64_t begin = 0;
  llvm::ArrayRef<uint8_t> bytes;
  bool Has(uint64_t address) const { return address >= begin && address < begin + bytes.size(); }
};

class Decoder {
 public:
  static Result<Decoder> Make(const Target& target) {
    Decoder d;
    const llvm::Target* found = TRY(FindLlvmTarget(target));
    d.triple_ = target.triple;
    llvm::MCTargetOptions options;
    d.registers_.reset(found->createMCRegInfo(target.triple));
    d.info_.reset(found->createMCAsmInfo(*d.registers_, target.triple, options));
    d.subtarget_.reset(found->createMCSubtargetInfo(target.triple, target.cpu, MachineFeatures(target)));
    d.instructions_.reset(found->createMCInstrInfo());
    d.context_ = std::make_unique<llvm::MCContext>(llvm::Triple(target.triple), d.info_.get(), d.registers_.get(),
                                                   d.subtarget_.get());
    d.disassembler_.reset(found->createMCDisassembler(*d.subtarget_, *d.context_));
    d.analysis_.reset(found->createMCInstrAnalysis(d.instructions_.get()));
    d.printer_.reset(
        found->createMCInstPrinter(llvm::Triple(target.triple), 0, *d.info_, *d.instructions_, *d.registers_));
    if (!d.disassembler_ || !d.analysis_ || !d.printer_) return Err("LLVM cannot disassemble code for ", target.triple);
    d.printer_->setPrintBranchImmAsAddress(true);
    return d;
  }

  // Returns nothing if the bytes are no instruction.
  std::optional<Decoded> At(const CodeSection& section, uint64_t address) {
    llvm::MCInst inst;
    Decoded decoded;
    auto status = disassembler_->getInstruction(inst, decoded.size, section.bytes.slice(address - section.begin),
                                                address, llvm::nulls());
    if (status == llvm::MCDisassembler::Fail || decoded.size == 0) return std::nullopt;
    std::string text;
    llvm::raw_string_ostream stream(text);
    printer_->printInst(&inst, address, "", *subtarget_, stream);
    const llvm::MCInstrDesc& desc = instructions_->get(inst.getOpcode());
    decoded.instruction = ClassifyInstruction(Tidy(text), triple_);
    decoded.instruction.address = address;
    decoded.instruction.loads = desc.mayLoad();
    decoded.instruction.stores = desc.mayStore();
    decoded.instruction.stack &= desc.mayLoad() || desc.mayStore();
    uint64_t target = 0;
    const bool known = analysis_->evaluateBranch(inst, address, decoded.size, target);
    if (desc.isCall()) {
      if (known) decoded.function = target;
    } else if (desc.isBranch()) {
      if (known) decoded.jump = target;
    } else if (!desc.mayLoad() && !desc.mayStore()) {
      decoded.function = AddressOf(inst, decoded);
    }
    decoded.ends = desc.isReturn() || desc.isUnconditionalBranch() || desc.isIndirectBranch() || desc.isTrap();
    return decoded;
  }

 private:
  // Returns the text with one blank for each run of tabs and blanks, and none at the beginning.
  static std::string Tidy(const std::string& text) {
    std::string tidy;
    for (char c : text) {
      if (c == '\t') c = ' ';
      if (c == ' ' && (tidy.empty() || tidy.back() == ' ')) continue;
      tidy += c;
    }
    return tidy;
  }

  // Returns the address that the instruction computes from its own: the address of a function that threads will call.
  // AArch64 takes two instructions for it, of which the first selects a page.
  std::optional<uint64_t> AddressOf(const llvm::MCInst& inst, const Decoded& decoded) {
    const uint64_t address = decoded.instruction.address;
    if (auto at = analysis_->evaluateMemoryOperandAddress(inst, subtarget_.get(), address, decoded.size)) return *at;
    const std::string& text = decoded.instruction.text;
    uint64_t target = 0;
    const std::optional<uint64_t> page = std::exchange(page_, std::nullopt);
    if (text.starts_with("adr") && analysis_->evaluateBranch(inst, address, decoded.size, target)) {
      if (!text.starts_with("adrp")) return target;
      page_ = target;
    } else if (page && text.starts_with("add ")) {
      const size_t immediate = text.rfind('#');
      if (immediate != std::string::npos) return *page + std::strtoull(text.c_str() + immediate + 1, nullptr, 0);
    }
    return std::nullopt;
  }

  std::string triple_;
  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> info_;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget_;
  std::unique_ptr<llvm::MCInstrInfo> instructions_;
  std::unique_ptr<llvm::MCContext> context_;
  std::unique_ptr<llvm::MCDisassembler> disassembler_;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis_;
  std::unique_ptr<llvm::MCInstPrinter> printer_;
  std::optional<uint64_t> page_;
};

using Function = std::map<uint64_t, Decoded>;  // by address

// Decodes a function by following its jumps, since a linked library has neither the names nor the ends of its internal
// functions. Adds the functions that it uses to `others`.
Function FunctionAt(uint64_t entry, const CodeSection& section, Decoder& decoder, std::vector<uint64_t>& others) {
  Function function;
  std::vector<uint64_t> open{entry};
  while (!open.empty()) {
    uint64_t address = open.back();
    open.pop_back();
    while (section.Has(address) && !function.contains(address)) {
      std::optional<Decoded> decoded = decoder.At(section, address);
      if (!decoded) break;
      if (decoded->jump) open.push_back(*decoded->jump);
      if (decoded->function && section.Has(*decoded->function)) others.push_back(*decoded->function);
      const uint64_t next = address + decoded->size;
      const bool ends = decoded->ends;
      function.emplace(address, std::move(*decoded));
      if (ends) break;
      address = next;
    }
  }
  return function;
}

struct Loop {
  uint64_t begin, end;  // addresses of the first instruction and of the jump back to it
};

// Returns the loops of a function, outer ones before those inside them.
std::vector<Loop> LoopsOf(const Function& function) {
  std::map<uint64_t, uint64_t> ends;  // by begin
  for (const auto& [address, decoded] : function) {
    if (decoded.jump && *decoded.jump <= address && function.contains(*decoded.jump)) {
      uint64_t& end = ends[*decoded.jump];
      end = std::max(end, address);
    }
  }
  std::vector<Loop> loops;
  for (const auto& [begin, end] : ends) loops.push_back({begin, end});
  std::stable_sort(loops.begin(), loops.end(),
                   [](const Loop& a, const Loop& b) { return a.end - a.begin > b.end - b.begin; });
  return loops;
}

void AddRegions(const Function& function, std::vector<CodeRegion>& regions) {
  const std::vector<Loop> loops = LoopsOf(function);
  std::vector<CodeRegion> parts(loops.size() + 1);
  auto around = [&](size_t loop, uint64_t address) {
    return loops[loop].begin <= address && address <= loops[loop].end;
  };
  for (size_t l = 0; l < loops.size(); ++l) {
    for (size_t other = 0; other <= l; ++other)
      parts[l + 1].depth += around(other, loops[l].begin) && around(other, loops[l].end);
  }
  for (const auto& [address, decoded] : function) {
    size_t part = 0;
    for (size_t l = 0; l < loops.size(); ++l) {
      if (around(l, address)) part = l + 1;  // the last one is the smallest
    }
    parts[part].instructions.push_back(decoded.instruction);
  }
  for (CodeRegion& part : parts) {
    if (!part.instructions.empty()) regions.push_back(std::move(part));
  }
}

}  // namespace

Result<std::vector<CodeRegion>> MachineCodeOf(std::string_view library, const std::string& symbol,
                                              const Target& target) {
  auto parsed = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(library.data(), library.size()), "library"));
  if (!parsed) return Err("the library is no ELF file: ", llvm::toString(parsed.takeError()));
  const auto* elf = llvm::cast<llvm::object::ELFObjectFileBase>(parsed->get());
  std::optional<uint64_t> entry;
  for (const llvm::object::ELFSymbolRef& exported : elf->getDynamicSymbolIterators()) {
    llvm::Expected<llvm::StringRef> name = exported.getName();
    llvm::Expected<uint64_t> address = exported.getAddress();
    if (name && address && *name == symbol) entry = *address;
    if (!name) llvm::consumeError(name.takeError());
    if (!address) llvm::consumeError(address.takeError());
  }
  if (!entry) return Err("the library has no function ", symbol);
  CodeSection section;
  for (const llvm::object::SectionRef& s : elf->sections()) {
    llvm::Expected<llvm::StringRef> content = s.getContents();
    if (!content) {
      llvm::consumeError(content.takeError());
      continue;
    }
    if (s.isText() && *entry >= s.getAddress() && *entry < s.getAddress() + content->size())
      section = {s.getAddress(), llvm::arrayRefFromStringRef(*content)};
  }
  if (section.bytes.empty()) return Err("the library has no code for ", symbol);
  Decoder decoder = TRY(Decoder::Make(target));
  std::vector<CodeRegion> regions;
  std::vector<uint64_t> open{*entry};
  std::set<uint64_t> done;
  while (!open.empty()) {
    const uint64_t address = open.back();
    open.pop_back();
    if (done.insert(address).second) AddRegions(FunctionAt(address, section, decoder, open), regions);
  }
  std::stable_sort(regions.begin(), regions.end(), [](const CodeRegion& a, const CodeRegion& b) {
    return a.instructions[0].address < b.instructions[0].address;
  });
  return regions;
}

}  // namespace autotune
