#include "runtime/module_blob.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <map>

#include "runtime/kernel_context.h"
#include "runtime/registry.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr std::string_view kLibrary = "_lib", kImportTree = "_import_tree";

void Collect(const Module& module, std::vector<Module>& order, std::map<const ModuleNode*, uint64_t>& index) {
  if (!index.emplace(module.get(), order.size()).second) return;
  order.push_back(module);
  for (const Module& import : module->imports()) Collect(import, order, index);
}

// Reads the bytes of a module of type `key`.
Result<Module> RestoreModule(std::string_view key, const std::shared_ptr<ByteReader>& in, const Module& library) {
  if (key == kLibrary) return library;
  const std::string shown = OneLine(key.substr(0, 64));
  Result<PackedFunc> load = Registry::Global().Get("runtime.module.loadbinary_" + std::string(key));
  if (!load.ok()) return Err("module of type '", shown, "' cannot be loaded by this runtime");
  Module module = TRY(TRY_NOTE((*load)(ObjectRef(in)), "module of type " + shown).As<Module>());
  if (!module) return Err("the loader of type '", shown, "' returned no module");
  return module;
}

// Reads the import tree and gives each module its imports. In a depth-first order a module comes before the modules
// that it imports. Any other order is an error, so there are no cycles.
Status RestoreImports(ByteReader& in, const std::vector<Module>& modules) {
  auto rows = TRY(in.Numbers<uint64_t>()), children = TRY(in.Numbers<uint64_t>());
  if (rows.size() != modules.size() + 1 || rows.front() != 0 || rows.back() != children.size()) {
    return Err("module blob: the import tree does not fit its ", modules.size(), " modules");
  }
  std::vector<int> depth(modules.size(), 0);  // 0: not imported yet
  depth[0] = 1;
  for (size_t parent = 0; parent < modules.size(); ++parent) {
    if (rows[parent] > rows[parent + 1]) return Err("module blob: the import tree's rows decrease");
    for (uint64_t i = rows[parent]; i < rows[parent + 1]; ++i) {
      if (i >= children.size() || children[i] >= modules.size()) return Err("module blob: there is no such import");
      const uint64_t child = children[i];
      if (child <= parent)
        return Err("module blob: module ", parent, " imports module ", child, ", which comes before it");
      if (depth[child] > 0) return Err("module blob: module ", child, " is imported twice");
      depth[child] = depth[parent] + 1;
      if (depth[child] > kMaxModuleDepth) return Err("module blob: more than ", kMaxModuleDepth, " levels of imports");
      TRY_NOTE(modules[parent]->Import(modules[child]), "module blob");
    }
  }
  return {};
}

// Returns how many of the `size` bytes at `symbol` lie in the mapped file. They are fewer than `size` if the symbol
// table is damaged.
size_t MappedBytes(const char* symbol, size_t size) {
  struct Search {
    uintptr_t at;
    size_t left = 0;
  } search{reinterpret_cast<uintptr_t>(symbol)};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || wanted->at < begin || wanted->at - begin >= segment.p_filesz) continue;
          wanted->left = segment.p_filesz - (wanted->at - begin);
          return 1;
        }
        return 0;
      },
      &search);
  return std::min(size, search.left);
}

}  // namespace

Status WriteModuleBlob(const Module& root, ByteWriter& out) {
  std::vector<Module> order;
  std::map<const ModuleNode*, uint64_t> index;
  Collect(root, order, index);
  out.Number(static_cast<uint64_t>(order.size() + 1));
  std::vector<uint64_t> rows = {0}, children;
  bool has_library = false;
  for (const Module& module : order) {
    if (module->TypeKey() == kLibraryType) {
      if (std::exchange(has_library, true)) return Err("a shared object cannot hold two library modules");
      out.Text(kLibrary);
    } else {
      out.Text(module->TypeKey());
      TRY(module->Save(out));
    }
    for (const Module& import : module->imports()) children.push_back(index.at(import.get()));
    rows.push_back(children.size());
  }
  if (children.size() + 1 != order.size()) return Err("two modules import the same one: imports form a tree");
  out.Text(kImportTree);
  out.Numbers(rows);
  out.Numbers(children);
  return {};
}

Result<Module> ParseModuleBlob(std::string_view blob, const Module& library) {
  auto in = std::make_shared<ByteReader>(blob, "module blob");
  // A blob has at least 8 bytes: the length of its key.
  const uint64_t count = TRY(in->Count(sizeof(uint64_t)));
  if (count > kMaxModules + 1) return Err("module blob: ", count, " parts; ", kMaxModules, " modules are the most");
  std::vector<Module> modules;
  bool has_tree = false, has_library = false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key = TRY(in->Text());
    if (key == kImportTree) {
      if (i + 1 != count) return Err("module blob: the import tree is not its last part");
      has_tree = true;
      break;
    }
    if (key == kLibrary && std::exchange(has_library, true)) return Err("module blob: two library modules");
    modules.push_back(TRY(RestoreModule(key, in, library)));
  }
  if (modules.empty()) return Err("module blob: it holds no module");
  if (!has_tree) return Err("module blob: the import tree is missing");
  TRY(RestoreImports(*in, modules));
  TRY(in->End());
  return modules[0];
}

Result<Module> LoadModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context) {
  Module library = MakeLibraryModule(artifact, std::move(context));
  auto* symbol = static_cast<const char*>(artifact->Symbol(kModuleBlobSymbol));
  if (!symbol) return library;
  // The length in the blob may be damaged, so reads stop at the end of the symbol and of the mapped file.
  Dl_info info{};
  const ElfW(Sym)* entry = nullptr;
  if (!dladdr1(symbol, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&entry)), RTLD_DL_SYMENT) || !entry) {
    return Err("cannot find the size of ", kModuleBlobSymbol);
  }
  ByteReader in({symbol, MappedBytes(symbol, entry->st_size)}, kModuleBlobSymbol);
  return ParseModuleBlob(TRY(in.Text()), library);
}

Result<Module> LoadModule(const std::string& path) {
  return TRY_NOTE(LoadModule(TRY(Artifact::FromFile(path)), std::make_shared<KernelContext>(0)), path);
}

}  // namespace autotune
