#include "compiler/aot.h"

#include "compiler/aot_objects.h"
#include "compiler/aot_source.h"
#include "package/link.h"
#include "runtime/data_object.h"
#include "support/file.h"
#include "support/hint.h"

namespace autotune {
namespace {

// The name of the network: that of the file, without folder and extension.
std::string NameOf(const std::string& path) {
  const size_t begin = path.rfind('/') + 1;
  return path.substr(begin, path.size() - 2 - begin);
}

// The object with the constants.
Result<std::string> DataObject(const std::string& like, const std::string& symbol, const AotPlan& plan) {
  ByteWriter out;
  TRY(WriteDataObject(like, symbol, static_cast<uint64_t>(plan.data_bytes), out, [&](ByteWriter& data) -> Status {
    const uint64_t begin = data.size();
    const auto pad_to = [&](int64_t at) {
      data.Raw(std::string(static_cast<size_t>(at) - (data.size() - begin), '\0'));
    };
    for (const AotPiece& piece : plan.data) {
      pad_to(piece.at);
      data.Raw({static_cast<const char*>(piece.tensor.data()), static_cast<size_t>(piece.tensor.num_bytes())});
    }
    pad_to(plan.data_bytes);
    return {};
  }));
  return out.Take();
}

Result<std::string> ObjectOf(const std::string& name, const std::string& header, const Package& package,
                             const AotPlan& plan, const Target& target) {
  std::vector<std::pair<std::string, std::string>> files = {{name + ".h", header},
                                                            {"driver.c", AotDriver(name, package.info, plan)}};
  for (size_t i = 0; i < package.objects.size(); ++i)
    files.emplace_back("kernel" + std::to_string(i) + ".o", TRY(PrefixSymbols(package.objects[i], name + ".")));
  if (plan.data_bytes > 0 && !plan.run.empty()) {
    files.emplace_back("data.o", TRY(PrefixSymbols(TRY(DataObject(package.objects[0], "data", plan)), name + ".")));
  }
  return LinkRelocatable(CCompilerOf(target), files);
}

}  // namespace

Status CheckAotOutput(const std::string& path, const Target& target) {
  if (target.IsGpu()) return Err("--executor aot: it is for CPUs, and the target is a GPU");
  if (path.ends_with(".c") && target.kind != TargetKind::kC)
    return WithHint(Err("-o ", path, ": the target's kernels are no C sources"), "say --target c, or name it NAME.o");
  if (!IsCName(NameOf(path))) {
    return Err("-o ", path, ": its functions would be called ", NameOf(path),
               "_run, which is no name in C; name it with letters, digits and '_', a letter first");
  }
  return {};
}

std::string AotHeaderOf(const std::string& path) { return path.substr(0, path.size() - 2) + ".h"; }

Result<std::string> WriteAot(const CompileResult& result, const Target& target, const std::string& path) {
  const std::string name = NameOf(path);
  const Package& package = result.package;
  AotPlan plan = TRY(PlanAot(package, result.kernels));
  plan.asks_for_tiles = result.uses_tiles;
  const std::string header = AotHeader(name, package.info, plan);
  std::string bytes;
  if (path.ends_with(".c")) {
    bytes = AotSource(name, package, plan);
  } else {
    bytes = TRY_NOTE(ObjectOf(name, header, package, plan, target), "while writing " + path);
    std::vector<std::string> symbols = {name + "_run", name + "_metadata"};
    if (!plan.prepare.empty()) symbols.push_back(name + "_prepare");
    if (path.ends_with(".a")) bytes = ArchiveOf(name + ".o", bytes, symbols);
  }
  TRY(ReplaceFile(AotHeaderOf(path), header));
  TRY(ReplaceFile(path, bytes));
  return plan.prepare.empty() ? std::string() : plan.not_here;
}

}  // namespace autotune
