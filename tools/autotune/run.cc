// `autotune run` runs a package and prints its outputs.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "archives/npz.h"
#include "frontend/onnx/tensor_pb.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "runtime/npy.h"
#include "service/gpus.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/json.h"
#include "support/shell.h"
#include "support/statistics.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/alone.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/runnable_model.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct RunOptions {
  std::string package;
  ModelPlace place;
  std::vector<std::string> inputs;
  std::string output_dir, output;
  int repeat = 1;
};

Result<Tensor> ReadTensor(const std::string& path) {
  if (path.ends_with(".npy")) return ReadNpy(path);
  if (!path.ends_with(".pb")) return Err("input file ", path, " is neither .npy nor .pb");
  NamedTensor read = TRY(ReadTensorPb(path));
  DLDataType type = TRY(DataTypeFromText(read.value.spec.dtype.Text()));
  return Tensor::FromBytes(read.value.spec.shape, type, read.value.bytes.view());
}

// Sets the inputs that the arrays of an .npz file name, and marks them in `given`.
Status BindArrays(const std::string& path, const RunnableModel& network, std::vector<bool>& given) {
  for (const auto& [name, tensor] : TRY(ReadNpz(path))) {
    const int64_t index = TRY_NOTE(network.InputIndex(name), "an array of " + path);
    TRY(network.SetInput(index, tensor));
    given[static_cast<size_t>(index)] = true;
  }
  return {};
}

// Sets the inputs from the options "name=file", or only "file" if the model has one input or the file is an .npz. Fills
// all other inputs with random numbers.
Status BindInputs(const RunOptions& options, const RunnableModel& network) {
  const std::vector<TensorSpec>& inputs = network.info().inputs;
  std::vector<bool> given(inputs.size(), false);
  for (const std::string& item : options.inputs) {
    if (item.ends_with(".npz")) {
      TRY(BindArrays(item, network, given));
      continue;
    }
    size_t equals = item.find('=');
    for (const TensorSpec& input : inputs) {  // names may contain '='
      if (item.starts_with(input.name + "=")) equals = input.name.size();
    }
    std::string name = equals == std::string::npos ? "" : item.substr(0, equals);
    std::string file = equals == std::string::npos ? item : item.substr(equals + 1);
    int64_t index = 0;
    if (!name.empty()) {
      index = TRY(network.InputIndex(name));
    } else if (given.size() != 1) {
      return WithHint(Err("the model has ", given.size(), " inputs, so --input must name one"),
                      "say --input " + ShellWord("NAME=" + file));
    }
    TRY(network.SetInput(index, TRY(ReadTensor(file))));
    given[index] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
    const std::string name = OneLine(inputs[i].name);
    Console::Get().Note("input " + name + " " + inputs[i].dtype + ShapeText(inputs[i].shape) +
                        ": random (seed 0); give --input " + ShellWord(name + "=FILE.npy") + " for your own");
    TRY(network.FillInput(static_cast<int64_t>(i), 0));
  }
  return {};
}

// Returns a valid file name for an output, different from the names in `taken`, and adds it to them.
std::string FileName(const std::string& name, std::set<std::string>& taken) {
  constexpr size_t kMaxLength = 200;  // bytes; file systems allow 255, including a number and the extension
  std::string safe;
  for (char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ? c : '_';
  safe = safe.substr(0, kMaxLength);
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = safe + "_" + std::to_string(i);
  return unique;
}

// The numbers of an output of floats, in order.
std::vector<double> FloatsOf(const Tensor& tensor, const std::string& dtype) {
  if (dtype == "f32") return {tensor.Data<float>(), tensor.Data<float>() + tensor.num_elements()};
  if (dtype == "f64") return {tensor.Data<double>(), tensor.Data<double>() + tensor.num_elements()};
  return {};
}

// What is told of an output of floats.
struct OutputSummary {
  double mean = 0;
  std::vector<double> first;  // the first five numbers
  size_t best = 0;            // index of the largest number
  double largest = 0;
  std::vector<size_t> top;  // indices of the five largest numbers, for the scores of a classification
};

// Returns nothing for outputs of other types or without elements. An output [1, N] with at least five numbers may be
// the scores of a classification.
std::optional<OutputSummary> Summarize(const TensorSpec& spec, const std::vector<double>& numbers) {
  constexpr size_t kShown = 5;
  if (numbers.empty()) return std::nullopt;
  OutputSummary summary;
  for (double number : numbers) summary.mean += number / static_cast<double>(numbers.size());
  summary.first.assign(numbers.begin(), numbers.begin() + static_cast<long>(std::min(kShown, numbers.size())));
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t sorted = std::min(kShown, order.size());
  // A NaN ranks last, so that the order is total; equal numbers keep their order.
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(sorted), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(numbers[a]) || std::isnan(numbers[b])) return !std::isnan(numbers[a]) && std::isnan(numbers[b]);
    return numbers[a] != numbers[b] ? numbers[a] > numbers[b] : a < b;
  });
  summary.best = order[0];
  summary.largest = numbers[order[0]];
  if (spec.shape.size() == 2 && spec.shape[0] == 1 && numbers.size() >= kShown)
    summary.top.assign(order.begin(), order.begin() + static_cast<long>(kShown));
  return summary;
}

std::string OutputText(const TensorSpec& spec, const std::vector<double>& numbers) {
  std::string text = "output " + OneLine(spec.name) + " " + spec.dtype + ShapeText(spec.shape);
  const std::optional<OutputSummary> summary = Summarize(spec, numbers);
  if (!summary) return text + "\n";
  text += Format(": mean %.6g, max %.6g at %zu, first", summary->mean, summary->largest, summary->best);
  for (double number : summary->first) text += Format(" %.6g", number);
  if (!summary->top.empty()) text += "\n  top 5:";
  for (size_t i = 0; i < summary->top.size(); ++i)
    text += Format("%s %zu (%.6g)", i ? "," : "", summary->top[i], numbers[summary->top[i]]);
  return text + "\n";
}

Json OutputJson(const TensorSpec& spec, const std::vector<double>& numbers) {
  Json output;
  output["name"] = spec.name;
  output["type"] = spec.dtype;
  output["shape"] = ToJson(spec.shape);
  const std::optional<OutputSummary> summary = Summarize(spec, numbers);
  if (!summary) return output;
  output["mean"] = summary->mean;
  output["max"] = summary->largest;
  output["max_at"] = summary->best;
  output["first"] = ToJson(summary->first);
  Json::Array top;
  for (size_t index : summary->top) {
    Json& entry = top.emplace_back();
    entry["index"] = index;
    entry["value"] = numbers[index];
  }
  if (!top.empty()) output["top"] = std::move(top);
  return output;
}

// Tells the first run apart from the others, since its caches are cold and its threads sleep.
std::string TimesText(const std::vector<double>& ms, const RunOptions& options) {
  const std::string text = "first run: " + TimeText(ms[0] / 1e3) + ", with cold caches";
  if (ms.size() == 1)
    return text + "\nfor the latency: autotune bench " + ShellWord(options.package) + options.place.Words() + "\n";
  std::vector<double> later(ms.begin() + 1, ms.end());
  return text + "; " + std::to_string(later.size()) + " more: min " +
         TimeText(*std::min_element(later.begin(), later.end()) / 1e3) + ", median " + TimeText(Median(later) / 1e3) +
         "\n";
}

// Returns the times in milliseconds of `options.repeat` runs.
Result<std::vector<double>> RunAll(const RunOptions& options, const RunnableModel& network) {
  std::vector<double> ms;
  std::string disturbed;
  for (int i = 0; i < options.repeat; ++i) {
    const rpc::RemoteDevice::Times times = TRY(network.Run());
    if (!times.disturbed.empty() && disturbed.empty()) Console::Get().Note("disturbed: " + times.disturbed);
    disturbed = times.disturbed;
    ms.push_back(times.seconds[0] * 1e3);
  }
  return ms;
}

// Makes the folder of the outputs, before the work begins.
Status MakeOutputDir(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Err("--output-dir: cannot create ", folder, ": ", error.message());
  TRY_NOTE(OpenUnnamedFile(folder), "for --output-dir");
  return {};
}

Result<int> Run(const RunOptions& options) {
  TRY(MakeOutputDir(options.output_dir));
  TRY(CheckOutputFile(options.output, options.package));
  const RunnableModel network = TRY(RunnableModel::Open(options.package, options.place, "run"));
  TRY(BindInputs(options, network));
  const std::vector<double> ms = TRY(RunAll(options, network));
  Console& console = Console::Get();
  Json::Array outputs;
  std::set<std::string> taken;
  NamedTensors arrays;
  for (int64_t i = 0; i < network.num_outputs(); ++i) {
    const TensorSpec& spec = network.info().outputs[i];
    const Tensor output = TRY(network.Output(i));
    const std::vector<double> numbers = FloatsOf(output, spec.dtype);
    outputs.push_back(OutputJson(spec, numbers));
    if (!console.json()) console.Result(WrapLines(OutputText(spec, numbers), console.WidthOut()));
    if (!options.output.empty()) arrays.emplace_back(spec.name, output);
    if (options.output_dir.empty()) continue;
    std::string path = options.output_dir + "/" + FileName(spec.name, taken) + ".npy";
    TRY(WriteNpy(path, output));
    outputs.back()["file"] = path;
    console.Report("wrote " + path + "\n");
  }
  if (!options.output.empty()) {
    TRY(WriteNpz(options.output, arrays));
    console.Report("wrote " + options.output + "\n");
  }
  console.Report(TimesText(ms, options));
  if (!console.json()) return kExitOk;
  Json line;
  line["package"] = options.package;
  line["model"] = network.info().model_name;
  line["outputs"] = std::move(outputs);
  line["runs_ms"] = ToJson(ms);
  console.Result(line);
  return kExitOk;
}

}  // namespace

Command RunCommand(CLI::App& root) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = root.add_subcommand("run", "Runs a package once (or --repeat times) and prints its outputs.");
  app->add_option("package", options->package, "a compiled network, M.tar or M.so, as `autotune compile -o` writes it")
      ->required();
  app->add_option(
      "--input", options->inputs,
      "NAME=FILE.npy or NAME=FILE.pb, once for each input, or FILE.npz, which names the inputs; others are random");
  app->add_option("--output-dir", options->output_dir, "write each output to DIR/NAME.npy");
  app->add_option("-o,--output", options->output, "write all outputs to this file, FILE.npz")
      ->check(
          [](const std::string& path) { return path.ends_with(".npz") ? std::string() : path + ": name it FILE.npz"; });
  app->add_option("--device", options->place.device, kDeviceHelp);
  AddFarmOptions(*app, options->place);
  app->add_option("--threads", options->place.threads, "threads of the kernels; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  app->add_option("--repeat", options->repeat, "number of runs")->check(AtLeastOne())->capture_default_str();
  AddOutput(*app, "package, model, outputs, runs_ms");
  return {app, [options] { return Run(*options); }};
}

}  // namespace autotune::tools
