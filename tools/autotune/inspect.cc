// `autotune inspect` shows the contents of a model or a package.
#include "frontend/onnx/inspect.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "package/module_file.h"
#include "package/package.h"
#include "runtime/module_blob.h"
#include "support/task_id.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

struct InspectOptions {
  ModelOptions model;
  bool verbose = false;
};

void PrintTensors(const char* what, const std::vector<ImportFacts::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    std::printf("%-12s %s  %s\n", i == 0 ? what : "", tensors[i].name.c_str(), tensors[i].type.c_str());
}

void PrintOperators(const ModelReport& report) {
  int64_t nodes = 0;
  double flops = 0, bytes = 0;
  size_t width = std::string("operator").size();
  for (const OperatorUse& use : report.operators) {
    nodes += use.nodes;
    flops += use.flops;
    bytes += use.bytes;
    width = std::max(width, use.op.size());
  }
  auto row = [&](const std::string& name, int64_t count, double some_flops, double some_bytes) {
    std::printf("%-*s %7lld", static_cast<int>(width), name.c_str(), static_cast<long long>(count));
    if (report.supported()) std::printf(" %12.3f %12.3f", some_flops * 1e-6, some_bytes * 1e-6);
    std::printf("\n");
  };
  std::printf("\n%-*s %7s%s\n", static_cast<int>(width), "operator", "nodes",
              report.supported() ? "       MFLOPs           MB" : "");
  for (const OperatorUse& use : report.operators) row(use.op, use.nodes, use.flops, use.bytes);
  row("all", nodes, flops, bytes);
}

std::string SpecText(const TensorSpec& spec) { return spec.dtype + graph::ShapeText(spec.shape); }

// Returns the description in a package. A tar is read without loading its library, so the package may be for another
// machine. A shared object must be loaded, so it must be for this machine.
Result<PackageInfo> InfoOfPackage(const std::string& path) {
  if (!TRY(IsSharedObject(path))) return std::move(TRY(ReadPackage(path)).info);
  PackageInfo info = TRY_NOTE(InfoOf(TRY(LoadModule(path))), "while loading " + path);
  if (info.model_name.empty())
    return Err(path, " holds no description of a network, as `autotune compile -o` writes it");
  return info;
}

Json TensorsJson(const std::vector<ImportFacts::Tensor>& tensors) {
  Json::Array list;
  for (const ImportFacts::Tensor& tensor : tensors) {
    Json& entry = list.emplace_back();
    entry["name"] = tensor.name, entry["type"] = tensor.type;
  }
  return list;
}

Json PackageJson(const PackageInfo& info, const std::vector<ImportFacts::Tensor>& inputs,
                 const std::vector<ImportFacts::Tensor>& outputs) {
  Json line;
  line["model"] = info.model_name;
  line["target"] = info.target;
  line["inputs"] = TensorsJson(inputs), line["outputs"] = TensorsJson(outputs);
  Json::Array kernels;
  for (const PackagedKernel& kernel : info.kernels) {
    Json& entry = kernels.emplace_back();
    entry["task"] = kernel.label, entry["hash"] = kernel.task, entry["flops"] = kernel.flops;
    entry["algorithm"] = kernel.alternative, entry["tuned"] = kernel.tuned;
  }
  line["kernels"] = std::move(kernels);
  return line;
}

Json ModelJson(const std::string& path, const ModelReport& report) {
  Json line;
  line["model"] = path;
  line["ir_version"] = report.facts.ir_version;
  for (const auto& [domain, version] : report.facts.opsets)
    line["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  line["inputs"] = TensorsJson(report.inputs), line["outputs"] = TensorsJson(report.outputs);
  line["parameters"] = report.facts.parameters, line["parameter_bytes"] = report.facts.parameter_bytes;
  line["supported"] = report.supported();
  line["problems"] = ToJson(report.facts.problems);
  Json::Array operators;
  for (const OperatorUse& use : report.operators) {
    Json& entry = operators.emplace_back();
    entry["operator"] = use.op, entry["nodes"] = use.nodes;
    if (report.supported()) entry["flops"] = use.flops, entry["bytes"] = use.bytes;
  }
  line["operators"] = std::move(operators);
  return line;
}

Result<int> InspectPackage(const std::string& path, bool verbose) {
  const PackageInfo info = TRY(InfoOfPackage(path));
  std::vector<ImportFacts::Tensor> inputs, outputs;
  for (const TensorSpec& spec : info.inputs) inputs.push_back({spec.name, SpecText(spec)});
  for (const TensorSpec& spec : info.outputs) outputs.push_back({spec.name, SpecText(spec)});
  if (Console::Get().json()) {
    Console::Get().Result(PackageJson(info, inputs, outputs));
    return kExitOk;
  }
  std::printf("%-12s %s, for %s\n", "package", info.model_name.c_str(), MachineText(info.target).c_str());
  if (verbose) std::printf("%-12s %s\n", "target", info.target.c_str());
  PrintTensors("inputs", inputs);
  PrintTensors("outputs", outputs);
  std::printf("\n%8s %12s %-10s %-7s %s\n", "task", "MFLOPs", "algorithm", "tuned", "operators and shapes");
  for (const PackagedKernel& kernel : info.kernels) {
    std::printf("%8s %12.3f %-10s %-7s %s\n", ShortTaskId(kernel.task).c_str(), kernel.flops * 1e-6,
                kernel.alternative.c_str(), kernel.tuned ? "yes" : "no", kernel.label.c_str());
  }
  std::printf("%s, %d of them tuned\n", Counted(info.tasks, "kernel").c_str(), info.tuned_tasks);
  return kExitOk;
}

Result<int> Inspect(const InspectOptions& options) {
  const std::string& path = options.model.model;
  if (path.ends_with(".tar") || path.ends_with(".so")) return InspectPackage(path, options.verbose);
  const NetworkOptions network = TRY(options.model.ParseNetwork());
  const Target target = TRY(Target::Parse("cpu"));
  const ModelReport report = TRY(InspectOnnx(
      path, {.shapes = network.shapes, .fixed = network.fixed, .dims = network.dims, .lenient = network.lenient},
      target));
  for (const std::string& note : WithoutRepeats(report.notes)) Console::Get().Note(note);
  const auto unsupported = [&] {
    return Err(path, " cannot be imported: ", Counted(static_cast<int64_t>(report.facts.problems.size()), "problem"),
               ", listed above");
  };
  if (Console::Get().json()) {
    Console::Get().Result(ModelJson(path, report));
    if (report.supported()) return kExitOk;
    return unsupported();
  }
  std::printf("%-12s %s, IR version %lld, operator sets:", "model", path.c_str(),
              static_cast<long long>(report.facts.ir_version));
  for (const auto& [domain, version] : report.facts.opsets)
    std::printf(" %s %lld", domain.empty() ? "ai.onnx" : domain.c_str(), static_cast<long long>(version));
  std::printf("\n");
  PrintTensors("inputs", report.inputs);
  PrintTensors("outputs", report.outputs);
  std::printf("%-12s %s, %.3f MB\n", "parameters", Counted(report.facts.parameters, "number").c_str(),
              static_cast<double>(report.facts.parameter_bytes) * 1e-6);
  PrintOperators(report);
  if (report.supported()) return kExitOk;
  std::printf("\nnot supported:\n");
  for (const std::string& problem : report.facts.problems) std::printf("  %s\n", problem.c_str());
  return unsupported();
}

}  // namespace

Command InspectCommand(CLI::App& root) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app = root.add_subcommand(
      "inspect", "Shows what a model contains and what is not supported, or what a package contains.");
  app->add_option("model,--model", options->model.model,
                  "an ONNX model, or a package: a file whose name ends in .tar or .so")
      ->required();
  options->model.AddInputs(*app);
  app->add_flag("--verbose", options->verbose, "also print the target of a package in full");
  AddOutput(*app, "inputs, outputs, operators, problems; of a package its kernels");
  return {app, [options] { return Inspect(*options); }};
}

}  // namespace autotune::tools
