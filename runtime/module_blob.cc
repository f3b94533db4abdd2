#include "runtime/module_blob.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <map>

#include "runtime/graph_executor.h"

namespace autotune {
namespace {

constexpr std::string_view kLibrary = "_lib", kImportTree = "_import_tree";

struct Loader {
  std::string_view type_key;
  Result<Module> (*load)(std::string_view bytes);
};
// How each type of module is restored; "_lib" needs no loader.
constexpr Loader kLoaders[] = {{"graph_executor_factory", LoadGraphExecutorFactory}};

void PutNumber(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
void PutText(std::string& out, std::string_view text) {
  PutNumber(out, text.size());
  out += text;
}
void PutNumbers(std::string& out, const std::vector<uint64_t>& values) {
  PutNumber(out, values.size());
  for (uint64_t value : values) PutNumber(out, value);
}

struct Reader {
  std::string_view bytes;

  Result<uint64_t> Number() {
    uint64_t value = 0;
    std::memcpy(&value, TRY(Take(sizeof value)).data(), sizeof value);
    return value;
  }
  Result<std::string_view> Text() { return Take(TRY(Number())); }
  Result<std::vector<uint64_t>> Numbers() {
    uint64_t count = TRY(Number());
    if (count > bytes.size() / 8) return Err("truncated module blob");
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < count; ++i) values.push_back(TRY(Number()));
    return values;
  }
  Result<std::string_view> Take(uint64_t count) {
    if (count > bytes.size()) return Err("truncated module blob");
    std::string_view result = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return result;
  }
};

void Collect(const Module& module, std::vector<Module>& order, std::map<const ModuleNode*, uint64_t>& index) {
  if (!index.emplace(module.get(), order.size()).second) return;
  order.push_back(module);
  for (const Module& import : module->imports()) Collect(import, order, index);
}

Result<Module> RestoreModule(std::string_view key, std::string_view bytes, const Module& library) {
  if (key == kLibrary) return library;
  for (const Loader& loader : kLoaders) {
    if (loader.type_key == key) return TRY_NOTE(loader.load(bytes), "module of type " + std::string(key));
  }
  return Err("module of type '", key.substr(0, 64), "' cannot be loaded by this runtime");
}

}  // namespace

Result<std::string> ModuleBlob(const Module& root) {
  std::vector<Module> order;
  std::map<const ModuleNode*, uint64_t> index;
  Collect(root, order, index);
  std::string out;
  PutNumber(out, order.size() + (order.size() > 1));
  std::vector<uint64_t> rows = {0}, children;
  bool has_library = false;
  for (const Module& module : order) {
    if (ArtifactOf(module)) {
      if (std::exchange(has_library, true)) return Err("a shared object cannot hold two library modules");
      PutText(out, kLibrary);
      PutText(out, "");
    } else {
      std::string bytes = TRY(module->Save());
      PutText(out, module->TypeKey());
      PutText(out, bytes);
    }
    for (const Module& import : module->imports()) children.push_back(index.at(import.get()));
    rows.push_back(children.size());
  }
  if (order.size() > 1) {
    PutText(out, kImportTree);
    PutNumbers(out, rows);
    PutNumbers(out, children);
  }
  return out;
}

Result<Module> ParseModuleBlob(std::string_view blob, const Module& library) {
  Reader reader{blob};
  uint64_t count = TRY(reader.Number());
  std::vector<Module> modules;
  bool has_tree = false, has_library = false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key = TRY(reader.Text());
    if (key == kImportTree) {
      if (i + 1 != count) return Err("module blob: the import tree is not its last part");
      has_tree = true;
      break;
    }
    if (key == kLibrary && std::exchange(has_library, true)) return Err("module blob: two library modules");
    modules.push_back(TRY(RestoreModule(key, TRY(reader.Text()), library)));
  }
  if (modules.empty()) return Err("module blob: it holds no module");
  if (!has_tree && modules.size() > 1) return Err("module blob: the import tree is missing");
  if (has_tree) {
    auto rows = TRY(reader.Numbers()), children = TRY(reader.Numbers());
    if (rows.size() != modules.size() + 1 || rows.front() != 0 || rows.back() != children.size()) {
      return Err("module blob: the import tree does not fit its ", modules.size(), " modules");
    }
    for (size_t parent = 0; parent < modules.size(); ++parent) {
      if (rows[parent] > rows[parent + 1]) return Err("module blob: the import tree's rows decrease");
      for (uint64_t i = rows[parent]; i < rows[parent + 1]; ++i) {
        if (i >= children.size() || children[i] >= modules.size()) return Err("module blob: there is no such import");
        TRY_NOTE(modules[parent]->Import(modules[children[i]]), "module blob");
      }
    }
  }
  if (!reader.bytes.empty()) return Err("module blob: ", reader.bytes.size(), " bytes too many");
  return modules[0];
}

Result<Module> LoadModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context) {
  Module library = MakeLibraryModule(artifact, std::move(context));
  auto* symbol = static_cast<const char*>(artifact->Symbol(kModuleBlobSymbol));
  if (!symbol) return library;
  // The symbol's size bounds what may be read, whatever the length says.
  Dl_info info{};
  const ElfW(Sym)* entry = nullptr;
  if (!dladdr1(symbol, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&entry)), RTLD_DL_SYMENT) || !entry) {
    return Err("cannot find the size of ", kModuleBlobSymbol);
  }
  Reader reader{{symbol, entry->st_size}};
  uint64_t length = TRY(reader.Number());
  return ParseModuleBlob(TRY(reader.Take(length)), library);
}

}  // namespace autotune
