// `autotune quantize` writes a copy of an ONNX model with integer weights.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "service/calibration.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/stop_on_signals.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/step_line.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct QuantizeOptions {
  ModelOptions model;
  std::string calibrate, output;
  int weights = 8;
  std::string method = "minmax";  // or "percentile"
  double percentile = 99.99;
  int threads = 0;

  bool Int8() const { return weights == 8; }
};

// What was written, for the report.
struct Quantized {
  std::string model;  // bytes
  int64_t samples = 0;
  // The error of the network without and with corrected biases; nothing: not measured.
  std::optional<NetworkError> plain, with_correction;
  bool corrected = false;  // the model has corrected biases

  const std::optional<NetworkError>& error() const { return corrected ? with_correction : plain; }
};

std::string Megabytes(int64_t bytes) { return Format("%.2f MB", static_cast<double>(bytes) / 1e6); }

// "22 products (21 Conv, 1 Gemm)"
std::string ProductsText(const ModelQuantizer& quantizer) {
  std::map<std::string, int> kinds;
  for (const auto& product : quantizer.products()) ++kinds[product.op];
  std::string text;
  for (const auto& [op, count] : kinds) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + op;
  return CountText(static_cast<int64_t>(quantizer.products().size()), "product") + " (" + text + ")";
}

// "  2 MatMul: both operands are computed (node 'a', node 'b')"
std::string LeftText(const ModelQuantizer& quantizer) {
  constexpr size_t kNamed = 3;
  std::string text;
  for (const auto& left : quantizer.left_in_float()) {
    std::string names;
    for (size_t i = 0; i < std::min(kNamed, left.nodes.size()); ++i) names += (i ? ", " : "") + left.nodes[i];
    text += "  " + std::to_string(left.nodes.size()) + " " + left.op + ": " + left.reason + " (" + names +
            (left.nodes.size() > kNamed ? ", …" : "") + ")\n";
  }
  return text.empty() ? "" : "left in float:\n" + text;
}

std::string ErrorText(const Quantized& result) {
  if (!result.error()) return "error: not measured, since there is no --calibrate\n";
  std::string text = Format("error: %.4g of output '%s', ||y - y32|| / ||y32|| over %s", result.error()->error,
                            OneLine(result.error()->output).c_str(), CountText(result.samples, "sample").c_str());
  if (result.with_correction)
    text += result.corrected ? Format("; %.4g without corrected biases", result.plain->error)
                             : Format("; %.4g with corrected biases, so they are not", result.with_correction->error);
  return text + "\n";
}

void Report(const QuantizeOptions& options, const ModelQuantizer& quantizer, const Quantized& result, double seconds) {
  Console& console = Console::Get();
  const auto before = static_cast<int64_t>(quantizer.FloatModel().size());
  const auto after = static_cast<int64_t>(result.model.size());
  if (console.json()) {
    Json line;
    line["model"] = options.model.model;
    line["output"] = options.output;
    line["form"] = options.Int8() ? "int8" : "weights4";
    line["samples"] = result.samples;
    line["products"] = static_cast<int64_t>(quantizer.products().size());
    Json::Array left;
    for (const auto& operators : quantizer.left_in_float()) {
      Json& entry = left.emplace_back();
      entry["op"] = operators.op;
      entry["reason"] = operators.reason;
      entry["nodes"] = ToJson(operators.nodes);
    }
    line["left_in_float"] = std::move(left);
    if (result.error()) {
      line["error"] = result.error()->error;
      line["worst_output"] = result.error()->output;
      line["plain_error"] = result.plain->error;
    }
    if (result.with_correction) line["corrected_error"] = result.with_correction->error;
    line["corrected"] = result.corrected;
    line["model_bytes"] = before;
    line["output_bytes"] = after;
    line["seconds"] = seconds;
    return console.Result(line);
  }
  console.Report(WrapLines(LeftText(quantizer), console.WidthOut()) + "quantized " + ProductsText(quantizer) + ", " +
                 Format("%.1f s; wrote ", seconds) + options.output + "\n" + ErrorText(result) +
                 "size: " + Megabytes(before) + " -> " + Megabytes(after) + "\n");
}

// Quantizes with and without corrected biases, and keeps the form with the smaller error.
Result<Quantized> Best(const ModelQuantizer& quantizer, Calibration& calibration) {
  Console& console = Console::Get();
  Quantized result;
  result.samples = calibration.data().size();
  result.model = TRY(quantizer.QuantizedModel());
  console.Status("compiling the quantized network");
  result.plain = TRY(calibration.ErrorOf(TRY(calibration.Compile(result.model)).package));
  if (calibration.data().is_random()) return result;
  const ModelQuantizer::MeanErrors errors = TRY(calibration.MeanErrors());
  if (std::ranges::all_of(errors, [](const auto& error) { return error.empty(); })) return result;
  std::string corrected = TRY(quantizer.QuantizedModel(errors));
  console.Status("compiling the network with corrected biases");
  result.with_correction = TRY(calibration.ErrorOf(TRY(calibration.Compile(corrected)).package));
  result.corrected = result.with_correction->error < result.plain->error;
  if (result.corrected) result.model = std::move(corrected);
  return result;
}

Result<Quantized> Calibrated(const QuantizeOptions& options, ModelQuantizer& quantizer) {
  const std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers({}));
  CalibrationSetup setup;
  setup.network = TRY(options.model.ParseNetwork());
  setup.target = TRY(options.model.ParseTarget(*builder));
  setup.builder = builder.get();
  setup.threads = options.threads;
  setup.percentile = options.method == "percentile" ? options.percentile : 100;
  StepLine line;
  setup.on_step = [&line](const std::string& step, int64_t done, int64_t total) { line.Tell(step, done, total); };
  Calibration calibration = TRY(Calibration::Open(quantizer, options.calibrate, std::move(setup)));
  Console& console = Console::Get();
  for (const std::string& note : WithoutRepeats(calibration.notes())) console.Note(note);
  const size_t noted = calibration.notes().size();
  if (calibration.data().is_random())
    console.Note("--calibrate random: the ranges are those of noise, so use the result only to measure speed");
  quantizer.SetRanges(TRY(calibration.Ranges()));
  for (size_t i = noted; i < calibration.notes().size(); ++i) console.Note(calibration.notes()[i]);
  return Best(quantizer, calibration);
}

Result<int> Quantize(const QuantizeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  TRY(CheckOutputFile(options.output, options.model.model));
  const StopOnSignals signals(kExitInterrupted,
                              [] { Console::Get().Ended("interrupted; nothing was written", kExitInterrupted); });
  ModelQuantizer quantizer =
      TRY(ModelQuantizer::Read(options.model.model, options.Int8() ? QuantizedForm::kInt8 : QuantizedForm::kWeights4));
  Quantized result;
  if (options.calibrate.empty()) {
    result.model = TRY(quantizer.QuantizedModel());
  } else {
    result = TRY(Calibrated(options, quantizer));
  }
  TRY(ReplaceFile(options.output, result.model));
  Report(options, quantizer, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return kExitOk;
}

Status CheckOptions(const QuantizeOptions& options, const CLI::App& app) {
  if (!options.output.ends_with(".onnx")) return Err(options.output, ": name it FILE.onnx");
  if (options.calibrate.empty() && options.Int8())
    return WithHint(
        Err("8 bits need --calibrate, inputs on which the ranges of the network's tensors are observed"),
        "name a folder with test_data_set_*/input_0.pb, .npz or .npy files; random suffices to measure speed");
  if (!options.Int8()) TRY(RefuseGiven(app, {"--method", "--percentile"}, "--weights 4 quantizes no activations"));
  if (options.method != "percentile") TRY(RefuseGiven(app, {"--percentile"}, "--method minmax takes the whole range"));
  return {};
}

}  // namespace

Command QuantizeCommand(CLI::App& root) {
  auto options = std::make_shared<QuantizeOptions>();
  CLI::App* app = root.add_subcommand("quantize", "Writes a copy of an ONNX model with weights of 8 or 4 bits.");
  app->add_option("--model", options->model.model, "the ONNX model, of floats")->required();
  options->model.AddInputs(*app);
  app->add_option("--calibrate", options->calibrate,
                  "inputs for which the error is measured and, for 8 bits, the ranges of tensors: a folder with "
                  "test_data_set_*/input_0.pb, .npz or .npy files; random, only to measure speed");
  app->add_option("-o,--output", options->output, "the model to write, FILE.onnx")->required();
  CLI::Option* int8 = app->add_flag_callback(
      "--int8", [] {}, "weights and activations of 8 bits (the default): i8 for each channel, and u8");
  app->add_option("--weights", options->weights, "4: only weights of matrices, 4 bits in blocks of 32")
      ->check(CLI::IsMember({4}))
      ->excludes(int8);
  app->add_option(
         "--method", options->method,
         "the range of a tensor: minmax, all values; percentile, all but the outermost ones, which are clipped")
      ->check(CLI::IsMember({"minmax", "percentile"}))
      ->capture_default_str();
  app->add_option("--percentile", options->percentile, "percentage of the values that a range covers")
      ->check([](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        return *end == 0 && value >= 50 && value <= 100 ? std::string()
                                                        : "'" + text + "' is not a number from 50 to 100";
      })
      ->capture_default_str();
  app->add_option("--threads", options->threads, "threads of the kernels; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  AddOutput(*app, "model, output, form, samples, products, left_in_float, error, model_bytes, output_bytes");
  return {app, [options] { return Quantize(*options); }, [options, app] { return CheckOptions(*options, *app); }};
}

}  // namespace autotune::tools
