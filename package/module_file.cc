#include "package/module_file.h"

#include "runtime/graph_executor.h"
#include "runtime/info_module.h"
#include "runtime/module_blob.h"

namespace autotune {

Result<std::string> ModuleSymbolOf(const Package& package) {
  ExecutorParts parts;
  parts.model_name = package.info.model_name;
  parts.graph = TRY(Graph::Parse(package.graph_json));
  parts.params = TRY(ParseParams(package.params));
  Module root = MakeUnlinkedLibrary();
  TRY(root->Import(MakeGraphExecutorFactory(std::move(parts))));
  TRY(root->Import(MakeInfoModule(ToJson(package.info).Dump())));
  return ModuleBlobSymbol(TRY(ModuleBlob(root)));
}

Result<PackageInfo> InfoOf(const Module& root) {
  Result<PackedFunc> info = root->GetFunction("get_info");
  if (!info.ok()) return Err("its module tree has no part of type ", kInfoModule);
  const std::string text = TRY(TRY((*info)()).As<std::string>());
  return TRY_NOTE(FromJson<PackageInfo>(TRY(Json::Parse(text))), kInfoModule.data());
}

}  // namespace autotune
