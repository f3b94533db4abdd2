#include <algorithm>

#include "runtime/call_times.h"
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "runtime/network_variants.h"
#include "runtime/stored_params.h"
#include "support/clock.h"
#include "support/json.h"

namespace autotune {
namespace {

constexpr std::string_view kFactoryType = "GraphExecutorFactory";

struct ExecutorModule : ModuleNode {
  std::unique_ptr<GraphExecutor> executor;

  std::string_view TypeKey() const override { return "graph_executor"; }
  std::vector<std::string> FunctionNames() const override {
    return {"get_input",      "get_input_index",     "get_input_name",
            "get_num_inputs", "get_num_outputs",     "get_output",
            "profile",        "profile_samples",     "run",
            "set_input",      "set_input_zero_copy", "set_output_zero_copy",
            "time_evaluator", "time_variants"};
  }

  // Returns the index of an input that is given by index or by name.
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
    TRY(CopyTensor(output, target));
    return Value(target);
  }

  Result<Tensor> Samples(int64_t runs) const {
    constexpr int64_t kMostRuns = 1 << 20;
    if (runs < 1 || runs > kMostRuns) return Err("profile_samples takes a number of runs, at least 1");
    ProfileSamples samples;
    TRY(executor->AddProfileSamples(static_cast<int>(runs), samples));
    std::vector<double> rows = std::move(samples.network);
    for (const std::vector<double>& kernel : samples.kernels) rows.insert(rows.end(), kernel.begin(), kernel.end());
    const std::string_view bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(double));
    return Tensor::FromBytes({static_cast<int64_t>(samples.kernels.size()) + 1, runs}, {kDLFloat, 64, 1}, bytes);
  }

  // time_variants(tasks, variants, serial, seconds)
  Result<Tensor> TimeVisits(const std::string& tasks_text, const Tensor& variants, const Tensor& serial,
                            double seconds) const {
    const auto tasks = TRY(FromJson<std::vector<TaskVariants>>(TRY(Json::Parse(tasks_text))));
    const auto count = static_cast<int64_t>(tasks.size());
    static constexpr DLDataType kInt64 = {kDLInt, 64, 1};
    const auto is_list = [](const Tensor& tensor, size_t rank) {
      return tensor.defined() && !tensor.device() && tensor.dtype() == kInt64 && tensor.shape().size() == rank;
    };
    if (!is_list(variants, 2) || !is_list(serial, 1) || variants.shape()[0] != serial.shape()[0] ||
        variants.shape()[0] < 1 || variants.shape()[1] != count || count < 1)
      return Err("time_variants takes the kernel of each task in each visit, as i64[visits, tasks] and i64[visits]");
    std::vector<double> times;
    int64_t visits = 0;
    for (const double end = SteadySeconds() + seconds; visits == 0 || SteadySeconds() < end;) {
      const double begin = SteadySeconds();
      const std::span<const int64_t> drawn(variants.Data<int64_t>() + visits * count, static_cast<size_t>(count));
      const auto visit = TRY(TimeVariants(*executor, tasks, drawn, serial.Data<int64_t>()[visits] != 0));
      times.push_back(SteadySeconds() - begin);
      times.insert(times.end(), visit.begin(), visit.end());
      if (++visits == variants.shape()[0]) break;
    }
    const std::string_view bytes(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
    return Tensor::FromBytes({visits, 1 + count}, {kDLFloat, 64, 1}, bytes);
  }

  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
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
        return ToJson(TRY(self->executor->Profile(static_cast<int>(std::min<int64_t>(runs, 1 << 20))))).Dump();
      });
    }
    if (name == "profile_samples") return PackedFunc::Of([self](int64_t runs) { return self->Samples(runs); });
    if (name == "time_variants") {
      return PackedFunc::Of([self](std::string tasks, Tensor variants, Tensor serial, double seconds) {
        return self->TimeVisits(tasks, variants, serial, seconds);
      });
    }
    if (name == "time_evaluator") {
      return PackedFunc::Of([self](std::string function, int64_t number, int64_t repeat) -> Result<PackedFunc> {
        return TimeEvaluator(TRY(self->GetFunction(function)), number, repeat);
      });
    }
    return {};
  }
};

struct FactoryModule : ModuleNode {
  ExecutorParts parts;
  int num_threads = 0;

  std::string_view TypeKey() const override { return kFactoryType; }
  std::vector<std::string> FunctionNames() const override {
    std::vector<std::string> names = {"default", "get_graph_json"};
    if (parts.model_name != names[0] && parts.model_name != names[1]) names.push_back(parts.model_name);
    return names;
  }

  Status Save(ByteWriter& out) const override {
    out.Text(parts.graph.ToText());
    WriteNamedTensors(out, parts.params, /*count_first=*/true);
    out.Text(parts.model_name);
    return {};
  }

  // MODEL_NAME(devices...): an executor whose kernels are looked up in `root`.
  Result<Value> MakeExecutor(const Module& root, std::span<const Value> args) const {
    if (args.empty()) return Err("expected one device or more");
    if (parts.graph.nodes.empty())
      return Err("this factory makes no executors, since its graph and parameters were moved out");
    GraphExecutorOptions options;
    options.prepared = parts.prepared;
    auto executor =
        TRY(GraphExecutor::Create(parts.graph, root, parts.params, TRY(OpenDevices(args, num_threads)), options));
    return Value(MakeGraphExecutorModule(std::move(executor)));
  }

  PackedFunc GetOwnFunction(std::string_view name, const Module& root) override {
    auto self = std::static_pointer_cast<FactoryModule>(shared_from_this());
    if (name == "get_graph_json") return PackedFunc::Of([self] { return self->parts.graph.ToText(); });
    if (name == "default" || (name == parts.model_name && !name.empty())) {
      return PackedFunc([self, root](std::span<const Value> args) { return self->MakeExecutor(root, args); });
    }
    return {};
  }
};

}  // namespace

Module MakeGraphExecutorModule(std::unique_ptr<GraphExecutor> executor) {
  auto module = std::make_shared<ExecutorModule>();
  module->executor = std::move(executor);
  return module;
}

Module MakeGraphExecutorFactory(ExecutorParts parts, int num_threads) {
  auto factory = std::make_shared<FactoryModule>();
  factory->parts = std::move(parts);
  factory->num_threads = num_threads;
  return factory;
}

Result<Module> LoadGraphExecutorFactory(ByteReader& in) {
  ExecutorParts parts;
  parts.graph = TRY(Graph::Parse(TRY(in.Text())));
  parts.params = TRY(Widened(parts.graph, TRY(ReadNamedTensors(in, /*count_first=*/true))));
  parts.model_name = TRY(in.Text());
  return MakeGraphExecutorFactory(std::move(parts));
}

void SetExecutorThreads(const Module& root, int num_threads) {
  if (Module found = root->FindByType(kFactoryType)) dynamic_cast<FactoryModule&>(*found).num_threads = num_threads;
}

std::optional<ExecutorParts> CopyExecutorParts(const Module& root) {
  Module found = root->FindByType(kFactoryType);
  if (!found) return std::nullopt;
  const ExecutorParts& parts = dynamic_cast<const FactoryModule&>(*found).parts;
  if (parts.graph.nodes.empty()) return std::nullopt;
  return parts;
}

std::optional<ExecutorParts> TakeExecutorParts(const Module& root) {
  Module found = root->FindByType(kFactoryType);
  if (!found) return std::nullopt;
  return std::exchange(dynamic_cast<FactoryModule&>(*found).parts, ExecutorParts());
}

}  // namespace autotune
