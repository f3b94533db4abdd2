#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SourceMgr.h>

#include "codegen/llvm/backend.h"
#include "codegen/llvm/machine.h"

namespace autotune {

Result<std::string> Assemble(const std::string& assembly, const Target& target) {
  const llvm::Target* found = TRY(FindLlvmTarget(target));
  const llvm::Triple triple(target.triple);
  std::string messages;
  llvm::SourceMgr sources;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic& d, void* text) {
        auto& out = *static_cast<std::string*>(text);
        if (out.empty()) out = "line " + std::to_string(d.getLineNo()) + ": " + d.getMessage().str();
      },
      &messages);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(assembly, "assembly"), llvm::SMLoc());
  const llvm::MCTargetOptions options = MachineOptions(target).MCOptions;
  std::unique_ptr<llvm::MCRegisterInfo> registers(found->createMCRegInfo(target.triple));
  std::unique_ptr<llvm::MCAsmInfo> info(found->createMCAsmInfo(*registers, target.triple, options));
  // Enable all features of the target, since the compiler may have used any of them.
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      found->createMCSubtargetInfo(target.triple, target.cpu, MachineFeatures(target)));
  std::unique_ptr<llvm::MCInstrInfo> instructions(found->createMCInstrInfo());
  llvm::MCContext context(triple, info.get(), registers.get(), subtarget.get(), &sources, &options);
  std::unique_ptr<llvm::MCObjectFileInfo> files(found->createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(files.get());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  std::unique_ptr<llvm::MCAsmBackend> backend(found->createMCAsmBackend(*subtarget, *registers, options));
  std::unique_ptr<llvm::MCObjectWriter> writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(found->createMCCodeEmitter(*instructions, context));
  std::unique_ptr<llvm::MCStreamer> streamer(found->createMCObjectStreamer(
      triple, context, std::move(backend), std::move(writer), std::move(emitter), *subtarget));
  std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *info));
  std::unique_ptr<llvm::MCTargetAsmParser> instruction_parser(
      found->createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*instruction_parser);
  if (parser->Run(/*NoInitialTextSection=*/false)) return Err("the compiler's assembly is not understood: ", messages);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace autotune
