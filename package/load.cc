#include "package/load.h"

#include "runtime/kernel_context.h"
#include "runtime/params.h"

namespace autotune {

Result<LoadedModel> LoadModel(Package package, int threads) {
  LoadedModel model{.info = std::move(package.info)};
  Graph graph = TRY(Graph::Parse(package.graph_json));
  std::vector<std::shared_ptr<const Artifact>> libraries;  // none: a network of reshapes only
  if (!package.library.empty()) libraries.push_back(TRY(Artifact::FromBytes(package.library)));
  Params params = TRY(ParseParams(package.params));
  package.params.clear();
  package.params.shrink_to_fit();
  model.executor = TRY(GraphExecutor::Create(std::move(graph), std::move(libraries), std::move(params),
                                             std::make_shared<KernelContext>(threads)));
  if (model.executor->num_inputs() != static_cast<int64_t>(model.info.inputs.size()) ||
      model.executor->num_outputs() != static_cast<int64_t>(model.info.outputs.size())) {
    return Err("its graph has other inputs or outputs than its metadata say");
  }
  return model;
}

Result<LoadedModel> LoadModel(const std::string& path, int threads) {
  return TRY_NOTE(LoadModel(TRY(ReadPackage(path)), threads), "while loading package " + path);
}

}  // namespace autotune
