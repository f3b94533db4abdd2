// `autotune inspect` shows the contents of a model or a package.
#include "frontend/onnx/inspect.h"

#include <algorithm>
#include <memory>

#include "package/module_file.h"
#include "package/package.h"
#include "runtime/module_blob.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct InspectOptions {
  ModelOptions model;
  bool verbose = false;
};

constexpr int kIndent = 13;  // columns before the second row of a line that is too long for the terminal

std::string TensorLines(const char* what, const std::vector<ImportFacts::Tensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i)
    text += Format("%-12s ", i == 0 ? what : "") + OneLine(tensors[i].name) + "  " + tensors[i].type + "\n";
  return text;
}

std::string OperatorTable(const ModelReport& report) {
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
    std::string text = name + std::string(width - name.size(), ' ') + Format(" %7lld", static_cast<long long>(count));
    if (report.supported()) text += Format(" %12.3f %12.3f", some_flops * 1e-6, some_bytes * 1e-6);
    return text + "\n";
  };
  std::string text = "\noperator" + std::string(width - std::string("operator").size(), ' ') + "   nodes" +
                     (report.supported() ? "       MFLOPs           MB\n" : "\n");
  for (const OperatorUse& use : report.operators) text += row(use.op, use.nodes, use.flops, use.bytes);
  return text + row("all", nodes, flops, bytes);
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
  std::string text = WrapWords("package      " + info.model_name + ", for " + MachineText(info.target),
                               Console::Get().WidthOut(), kIndent) +
                     "\n";
  if (verbose) text += "target       " + info.target + "\n";
  text += TensorLines("inputs", inputs) + TensorLines("outputs", outputs);
  const int width = verbose ? 0 : Console::Get().WidthOut();
  text += "\n" +
          Row(Format("%-8s %12s  %-16s %-5s  ", "task", "MFLOPs", "algorithm", "tuned"), "operators and shapes", width);
  for (const PackagedKernel& kernel : info.kernels) {
    text += Row(ShortTaskId(kernel.task) + Format(" %12.3f  %-16s %-5s  ", kernel.flops * 1e-6,
                                                  kernel.alternative.c_str(), kernel.tuned ? "yes" : "no"),
                OneLine(kernel.label), width);
  }
  Console::Get().Result(text + CountText(info.tasks, "kernel") + ", " + std::to_string(info.tuned_tasks) +
                        " of them tuned\n");
  return kExitOk;
}

bool IsPackage(const std::string& path) { return path.ends_with(".tar") || path.ends_with(".so"); }

Result<int> Inspect(const InspectOptions& options) {
  const std::string& path = options.model.model;
  if (IsPackage(path)) return InspectPackage(path, options.verbose);
  const NetworkOptions network = TRY(options.model.ParseNetwork());
  const Target target = TRY(Target::Parse("cpu"));
  const ModelReport report = TRY(InspectOnnx(
      path, {.shapes = network.shapes, .fixed = network.fixed, .dims = network.dims, .lenient = network.lenient},
      target));
  for (const std::string& note : WithoutRepeats(report.notes)) Console::Get().Note(note);
  const auto unsupported = [&] {
    return Err(path, " cannot be imported: ", CountText(static_cast<int64_t>(report.facts.problems.size()), "problem"),
               ", listed above");
  };
  if (Console::Get().json()) {
    Console::Get().Result(ModelJson(path, report));
    if (report.supported()) return kExitOk;
    return unsupported();
  }
  std::string text = "model        " + path + ", IR version " + std::to_string(report.facts.ir_version) +
                     (report.facts.opsets.size() == 1 ? ", operator set" : ", operator sets");
  for (const auto& [domain, version] : report.facts.opsets)
    text += " " + (domain.empty() ? "ai.onnx" : OneLine(domain)) + " " + std::to_string(version);
  text = WrapWords(text, Console::Get().WidthOut(), kIndent) + "\n";
  text += TensorLines("inputs", report.inputs) + TensorLines("outputs", report.outputs) + "parameters   " +
          CountText(report.facts.parameters, "number") +
          Format(", %.3f MB\n", static_cast<double>(report.facts.parameter_bytes) * 1e-6) + OperatorTable(report);
  text += report.supported() ? "all operators are supported\n" : "\nnot supported:\n";
  for (const std::string& problem : report.facts.problems)
    text += WrapWords("  " + problem, Console::Get().WidthOut(), 4) + "\n";
  Console::Get().Result(text);
  if (report.supported()) return kExitOk;
  return unsupported();
}

}  // namespace

Command InspectCommand(CLI::App& root) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app = root.add_subcommand(
      "inspect", "Shows what a model contains and what is not supported, or what a package contains.");
  app->add_option(
         "model,--model", options->model.model,
         "an ONNX model, or a package: a file whose name ends in .tar or .so. The word --model may be left out")
      ->required();
  options->model.AddInputs(*app);
  app->add_flag("--verbose", options->verbose, "of a package, print target and names in full");
  AddOutput(*app, "inputs, outputs, operators, problems; of a package its kernels");
  return {app, [options] { return Inspect(*options); },
          [options, app] {
            return IsPackage(options->model.model)
                       ? RefuseGiven(options->model.OfCompilation(), "a package is compiled already")
                       : RefuseGiven(*app, {"--verbose"}, "a model has no target");
          }};
}

}  // namespace autotune::tools
