#include "package/module_file.h"

#include "runtime/data_object.h"
#include "runtime/graph_executor.h"
#include "runtime/info_module.h"
#include "runtime/module_blob.h"
#include "support/file.h"

namespace autotune {
namespace {

Error TakenName(const std::string& name, const std::string& what) {
  return Err("the model's name, ", name, ", is that of ", what,
             ", so it could not be found by name; rename the model file");
}

}  // namespace

Status WriteModuleObject(const Package& package, int fd) {
  for (const PackagedKernel& kernel : package.info.kernels) {
    if (kernel.name == package.info.model_name) return TakenName(package.info.model_name, "a kernel");
  }
  for (std::string_view name : {"get_info", "get_graph_json"}) {
    if (name == package.info.model_name) return TakenName(package.info.model_name, "a function of the shared object");
  }
  ExecutorParts parts;
  parts.model_name = package.info.model_name;
  parts.graph = TRY(Graph::Parse(package.graph_json));
  parts.params = TRY(ViewParams(package.params));
  Module root = MakeUnlinkedLibrary();
  if (!package.device_blob.empty()) root = TRY(ParseModuleBlob(package.device_blob, root));
  TRY(root->Import(MakeGraphExecutorFactory(std::move(parts))));
  TRY(root->Import(MakeInfoModule(ToJson(package.info).Dump())));
  ByteWriter count([](std::string_view) { return Status(); });
  TRY(WriteModuleBlob(root, count));
  const uint64_t bytes = count.size();
  if (package.objects.empty()) return Err("the package has no objects to link");
  ByteWriter out([fd](std::string_view piece) { return WriteAll(fd, piece, "the object of the module tree"); });
  TRY(WriteDataObject(package.objects[0], kModuleBlobSymbol, sizeof bytes + bytes, out, [&](ByteWriter& data) {
    data.Number(bytes);
    return WriteModuleBlob(root, data);
  }));
  return out.Finish();
}

Result<PackageInfo> InfoOf(const Module& root) {
  Module info = root->FindByType(kInfoModule);
  if (!info) return PackageInfo();
  const std::string text = TRY(TRY(info->GetOwnFunction("get_info", root)()).As<std::string>());
  return TRY_NOTE(FromJson<PackageInfo>(TRY(Json::Parse(text))), std::string(kInfoModule));
}

}  // namespace autotune
