#include <cstring>

#include "runtime/graph_executor.h"
#include "runtime/kernel_context.h"
#include "support/json.h"

namespace autotune {
namespace {

struct ExecutorModule : ModuleNode {
  std::unique_ptr<GraphExecutor> executor;

  std::string_view TypeKey() const override { return "graph_executor"; }
  std::vector<std::string> FunctionNames() const override {
    return {"get_input",
            "get_input_index",
            "get_input_name",
            "get_num_inputs",
            "get_num_outputs",
            "get_output",
            "profile",
            "run",
            "set_input",
            "set_input_zero_copy",
            "set_output_zero_copy"};
  }

  // An input by index or name.
  Result<int64_t> InputOf(const Value& key) const {
    if (const std::string* name = key.If<std::string>()) return executor->InputIndex(*name);
    int64_t i = TRY(key.As<int64_t>());
    if (i < 0 || i >= executor->num_inputs()) {
      return Err("there is no input ", i, "; the graph has ", executor->num_inputs());
    }
    return i;
  }

  // get_output(index[, tensor])
  Result<Value> GetOutput(std::span<const Value> args) const {
    if (args.empty() || args.size() > 2) return Err("get_output takes an index and optionally a tensor");
    int64_t i = TRY(detail::Argument<int64_t>(args, 0));
    if (i < 0 || i >= executor->num_outputs()) {
      return Err("there is no output ", i, "; the graph has ", executor->num_outputs());
    }
    Tensor output = executor->Output(i);
    if (args.size() == 1) return Value(output);
    Tensor target = TRY(detail::Argument<Tensor>(args, 1));
    if (!target.defined() || !(target.dtype() == output.dtype()) || target.shape() != output.shape()) {
      return Err("output ", i, " is ", output.TypeText(), ", got ", target.defined() ? target.TypeText() : "no tensor");
    }
    if (output.num_bytes() > 0) std::memcpy(target.data(), output.data(), output.num_bytes());
    return Value(target);
  }

  PackedFunc GetOwnFunction(std::string_view name) override {
    auto self = std::static_pointer_cast<ExecutorModule>(shared_from_this());
    if (name == "set_input") {
      return PackedFunc::Of([self](Value key, Tensor tensor) -> Status {
        return self->executor->SetInput(TRY(self->InputOf(key)), tensor);
      });
    }
    if (name == "set_input_zero_copy") {
      return PackedFunc::Of([self](Value key, Tensor tensor) -> Status {
        return self->executor->BindInput(TRY(self->InputOf(key)), std::move(tensor));
      });
    }
    if (name == "set_output_zero_copy") {
      return PackedFunc::Of(
          [self](int64_t i, Tensor tensor) { return self->executor->BindOutput(i, std::move(tensor)); });
    }
    if (name == "run") return PackedFunc::Of([self] { return self->executor->Run(); });
    if (name == "get_output") {
      return PackedFunc([self](std::span<const Value> args) { return self->GetOutput(args); });
    }
    if (name == "get_input") {
      return PackedFunc::Of(
          [self](Value key) -> Result<Tensor> { return self->executor->Input(TRY(self->InputOf(key))); });
    }
    if (name == "get_num_inputs") return PackedFunc::Of([self] { return self->executor->num_inputs(); });
    if (name == "get_num_outputs") return PackedFunc::Of([self] { return self->executor->num_outputs(); });
    if (name == "get_input_index") {
      return PackedFunc::Of([self](std::string input) { return self->executor->InputIndex(input); });
    }
    if (name == "get_input_name") {
      return PackedFunc::Of(
          [self](Value i) -> Result<std::string> { return self->executor->input_name(TRY(self->InputOf(i))); });
    }
    if (name == "profile") {
      return PackedFunc::Of([self](int64_t runs) -> Result<std::string> {
        Json::Array rows;
        for (const NodeTime& row : TRY(self->executor->Profile(static_cast<int>(std::min<int64_t>(runs, 1 << 20))))) {
          rows.push_back(Json::Object{
              {"name", row.name}, {"func_name", row.func_name}, {"seconds", row.seconds}, {"flops", row.flops}});
        }
        return Json(std::move(rows)).Dump();
      });
    }
    return {};
  }
};

struct FactoryModule : ModuleNode {
  Graph graph;
  Params params;
  int num_threads = 0;

  std::string_view TypeKey() const override { return "graph_executor_factory"; }
  std::vector<std::string> FunctionNames() const override { return {"default", "get_graph_json"}; }

  // The graph's length and text, then the parameters.
  Result<std::string> Save() const override {
    std::string text = graph.ToText();
    uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + ParamsBytes(params);
  }

  Result<Module> MakeExecutor(DLDevice device) const {
    if (device.device_type != kDLCPU)
      return Err("this package runs on the CPU, not on device type ", device.device_type);
    std::vector<std::shared_ptr<const Artifact>> libraries;
    for (const Module& import : imports()) {
      if (auto artifact = ArtifactOf(import)) libraries.push_back(std::move(artifact));
    }
    auto executor =
        TRY(GraphExecutor::Create(graph, std::move(libraries), params, std::make_shared<KernelContext>(num_threads)));
    return MakeGraphExecutorModule(std::move(executor));
  }

  PackedFunc GetOwnFunction(std::string_view name) override {
    auto self = std::static_pointer_cast<FactoryModule>(shared_from_this());
    if (name == "get_graph_json") return PackedFunc::Of([self] { return self->graph.ToText(); });
    if (name == "default") return PackedFunc::Of([self](DLDevice device) { return self->MakeExecutor(device); });
    return {};
  }
};

}  // namespace

Module MakeGraphExecutorModule(std::unique_ptr<GraphExecutor> executor) {
  auto module = std::make_shared<ExecutorModule>();
  module->executor = std::move(executor);
  return module;
}

Module MakeGraphExecutorFactory(Graph graph, std::shared_ptr<const Artifact> library, Params params, int num_threads) {
  auto factory = std::make_shared<FactoryModule>();
  factory->graph = std::move(graph);
  factory->params = std::move(params);
  factory->num_threads = num_threads;
  auto context = std::make_shared<KernelContext>(1);
  CHECK(factory->Import(MakeLibraryModule(std::move(library), std::move(context))).ok());
  return factory;
}

Result<Module> LoadGraphExecutorFactory(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) return Err("truncated: ", bytes.size(), " bytes");
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.remove_prefix(sizeof length);
  if (length > bytes.size()) return Err("truncated: its graph takes ", length, " bytes of ", bytes.size());
  auto factory = std::make_shared<FactoryModule>();
  factory->graph = TRY(Graph::Parse(bytes.substr(0, length)));
  factory->params = TRY(ParseParams(bytes.substr(length)));
  return Module(std::move(factory));
}

}  // namespace autotune
