// `autotune verify` compares a model's outputs with expected ones.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "compiler/compile.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "package/load.h"
#include "runtime/compare.h"
#include "support/terminal.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/pass_options.h"
#include "tools/autotune/runnable_model.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"
#include "tools/autotune/verify_against.h"
#include "tools/autotune/verify_steps.h"
#include "tools/error_lines.h"

namespace autotune::tools {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  ModelOptions model;
  std::string package;  // path of a compiled network; empty: a model is compiled
  PassOptions passes{CompilePassTables()};
  std::vector<std::string> data;
  std::string against;   // package of the exact network; empty: `data` has the expected outputs
  double max_error = 0;  // with `against`
  Tolerance tolerance;
  ModelPlace place;
};

enum class CaseVerdict { kPassed, kFailed, kUnsupported };

struct CaseResult {
  CaseVerdict verdict = CaseVerdict::kFailed;
  std::string text;
  std::vector<std::string> notes = {};
  std::string cause = {};  // why the case is unsupported, without the names of its files and nodes
};

Result<std::vector<NamedTensor>> ReadTensors(const fs::path& folder, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (int i = 0;; ++i) {
    fs::path path = folder / (prefix + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return tensors;
    tensors.push_back(TRY(ReadTensorPb(path.string())));
  }
}

Result<Tensor> ToTensor(const graph::TensorValue& value) {
  return Tensor::FromBytes(value.spec.shape, TRY(DataTypeFromText(value.spec.dtype.Text())), value.bytes.view());
}

using FixedInputs = std::map<std::string, graph::TensorValue>;

struct DataSet {
  StepTwin::Inputs inputs;
  std::vector<Tensor> outputs;
};

// Returns the tensor in the type that the model declares. Files of early ONNX versions hold the bits of bf16 as u16.
Result<Tensor> AsDeclared(const NamedTensor& tensor, const TensorSpec& spec) {
  graph::TensorValue value = tensor.value;
  if (spec.dtype == "bf16" && value.spec.dtype == DType::UInt(16)) value.spec.dtype = DType::BFloat16();
  return ToTensor(value);
}

// Reads the inputs and outputs of one data set. Skips the inputs in `fixed`, which are constants of the compiled model.
// Returns an error if the files are damaged or do not fit the model's inputs and outputs.
Result<DataSet> ReadData(const PackageInfo& info, const fs::path& folder, const FixedInputs& fixed) {
  std::vector<NamedTensor> inputs = TRY(ReadTensors(folder, "input_")), outputs = TRY(ReadTensors(folder, "output_"));
  if (outputs.empty()) return Err(folder.string(), " has no output_0.pb");
  std::erase_if(inputs, [&](const NamedTensor& t) { return fixed.count(t.name) > 0; });
  if (inputs.size() != info.inputs.size())
    return Err(folder.string(), " has ", inputs.size(), " inputs, the model ", info.inputs.size());
  if (outputs.size() != info.outputs.size())
    return Err(folder.string(), " has ", outputs.size(), " outputs, the model ", info.outputs.size());
  DataSet data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Find the input by the tensor's name if the model has an input of that name, else by position.
    auto named = std::find_if(info.inputs.begin(), info.inputs.end(),
                              [&](const TensorSpec& s) { return s.name == inputs[i].name; });
    int64_t index = named == info.inputs.end() ? static_cast<int64_t>(i) : named - info.inputs.begin();
    const TensorSpec& spec = info.inputs[index];
    Tensor tensor = TRY(AsDeclared(inputs[i], spec));
    if (tensor.shape() != spec.shape || DataTypeText(tensor.dtype()) != spec.dtype)
      return Err("input '", spec.name, "' of the case is ", tensor.TypeText(), ", but the model expects another type");
    data.inputs.emplace_back(index, std::move(tensor));
  }
  for (size_t i = 0; i < outputs.size(); ++i) data.outputs.push_back(TRY(AsDeclared(outputs[i], info.outputs[i])));
  return data;
}

// Runs one data set through a loaded model and compares every output. Where one is wrong and the network has steps, the
// twin says what these may change.
Result<CaseResult> CheckData(const RunnableModel& model, const DataSet& data, const VerifyOptions& options,
                             StepTwin* twin) {
  for (const auto& [index, tensor] : data.inputs) TRY(model.SetInput(index, tensor));
  TRY(model.RunOnce());
  const Result<Target> target = Target::Parse(model.info().target);
  const Tolerance tolerance = Widened(options.tolerance, target.ok() ? target->ProductRounding() : 0);
  std::vector<Tensor> outputs;
  std::vector<Comparison> comparisons;
  for (size_t i = 0; i < data.outputs.size(); ++i) {
    outputs.push_back(TRY(model.Output(static_cast<int64_t>(i))));
    comparisons.push_back(TRY(CompareTensors(outputs[i], data.outputs[i], tolerance)));
  }
  std::vector<StepSpread> spreads;
  Result<bool> has_steps = false;
  if (twin && !std::ranges::all_of(comparisons, &Comparison::ok)) {
    for (size_t i = 0; i < outputs.size(); ++i) spreads.emplace_back(outputs[i], data.outputs[i], tolerance);
    has_steps = twin->AddSamples(data.inputs, spreads);
  }
  CaseResult result{CaseVerdict::kPassed, ""};
  for (size_t i = 0; i < comparisons.size(); ++i) {
    bool ok = comparisons[i].ok;
    std::string text = comparisons[i].Text();
    if (!ok && has_steps.ok() && *has_steps) {
      const StepSpread::Judgement judgement = spreads[i].Judge();
      ok = judgement.ok, text = TextOf(judgement, comparisons[i].mismatches);
    }
    result.text += (i ? "; " : "") + model.info().outputs[i].name + ": " + text;
    if (!ok) result.verdict = CaseVerdict::kFailed;
  }
  if (!has_steps.ok()) result.text += "; what roundings change could not be found: " + SentenceOf(has_steps.error());
  return result;
}

// Runs data sets until one fails, and returns the result of the last one. A data set that does not fit the model makes
// the case unsupported.
Result<CaseResult> CheckSets(const RunnableModel& model, const std::vector<fs::path>& sets,
                             const VerifyOptions& options, const FixedInputs& fixed, StepTwin* twin) {
  CaseResult result;
  for (const fs::path& set : sets) {
    const Result<DataSet> data = ReadData(model.info(), set, fixed);
    if (!data.ok())
      return CaseResult{
          CaseVerdict::kUnsupported, SentenceOf(data.error()), {}, "the case's data do not fit its model"};
    result = TRY(CheckData(model, *data, options, twin));
    if (result.verdict == CaseVerdict::kFailed) break;
  }
  return result;
}

// Returns the data sets of one test case: `folder` itself, or its test_data_set_* folders.
std::vector<fs::path> DataSets(const fs::path& folder) {
  std::vector<fs::path> sets;
  if (fs::exists(folder / "output_0.pb")) return {folder};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      sets.push_back(entry.path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// Returns the inputs that may be shapes, axes or scales: vectors and scalars of integers and, if `floats_too`, of
// floats. Returns none if an input differs between data sets.
Result<FixedInputs> FixableInputs(const std::vector<fs::path>& sets, bool floats_too) {
  FixedInputs fixed;
  for (const fs::path& set : sets) {
    for (const NamedTensor& t : TRY(ReadTensors(set, "input_"))) {
      if (t.name.empty() || t.value.spec.rank() > 1 || (t.value.spec.dtype.IsFloat() && !floats_too)) continue;
      auto [it, is_new] = fixed.try_emplace(t.name, t.value);
      bool same = it->second.spec == t.value.spec && it->second.bytes.view() == t.value.bytes.view();
      if (!is_new && !same) return FixedInputs{};
    }
  }
  return fixed;
}

// Imports the model. If the importer refuses it, imports it again with inputs fixed to the values of the data sets,
// since some operators need constants, and stores these inputs in `fixed`. If all attempts fail, returns the error of
// the attempt with fixed integers, in which all shapes and axes are known; without integers to fix, the first error.
Status TryImport(const std::string& model, const NetworkOptions& options, const std::vector<fs::path>& sets,
                 FixedInputs& fixed) {
  Result<ImportedModel> imported =
      ImportOnnx(model, {.shapes = options.shapes, .dims = options.dims, .lenient = options.lenient});
  for (bool floats_too : {false, true}) {
    if (imported.ok()) break;
    Result<FixedInputs> some = FixableInputs(sets, floats_too);
    if (!some.ok() || some->empty()) continue;
    Result<ImportedModel> again =
        ImportOnnx(model, {.shapes = options.shapes, .fixed = *some, .dims = options.dims, .lenient = options.lenient});
    if (again.ok()) fixed = std::move(*some);
    if (again.ok() || !floats_too) imported = std::move(again);
  }
  if (!imported.ok()) return imported.error();
  return {};
}

// What the checks of all cases have in common.
struct CaseSetup {
  const VerifyOptions& options;
  ModelPlace place;
  ModelSetup model;
};

// Loads a compiled network where it is checked. `name`: for the farm.
Result<RunnableModel> RunnableModelOf(Package package, const std::string& name, const ModelPlace& place) {
  if (place.OnFarm()) return RunnableModel::OnFarm(std::move(package), name, place, "verify");
  return RunnableModel::Of(TRY(LoadModel(std::move(package), place.threads, place.device)));
}

// Imports, compiles and checks one case. It is unsupported if the importer refuses the model, or if the data do not fit
// the model. Returns an error if the outputs could not be computed or compared.
Result<CaseResult> CheckCase(const std::string& model_path, const fs::path& data, const CaseSetup& setup) {
  const VerifyOptions& options = setup.options;
  const Target& target = setup.model.target;
  NetworkOptions network_options = setup.model.network;
  Builder& builder = *setup.model.builder;
  std::vector<fs::path> sets = DataSets(data);
  Status imported = TryImport(model_path, network_options, sets, network_options.fixed);
  if (!imported.ok())
    return CaseResult{CaseVerdict::kUnsupported, SentenceOf(imported.error()), {}, imported.error().Cause()};
  if (sets.empty()) return Err(data.string(), " has neither output_0.pb nor test_data_set_0");
  const PassContext passes = TRY(options.passes.Context());
  Network network = TRY(LoadNetwork(model_path, network_options, target, builder, passes));
  CompileResult compiled = TRY(Compile(network, target, setup.model.store.get(), builder, passes));
  const RunnableModel model = TRY(RunnableModelOf(std::move(compiled.package), model_path, setup.place));
  StepTwin twin([&]() -> Result<RunnableModel> {
    NetworkOptions moving = network_options;
    moving.step_moves = true;
    const Network moved = TRY(LoadNetwork(model_path, moving, target, builder, passes));
    CompileResult made = TRY(Compile(moved, target, setup.model.store.get(), builder, passes));
    return RunnableModelOf(std::move(made.package), model_path, setup.place);
  });
  CaseResult result = TRY(CheckSets(model, sets, options, network_options.fixed, &twin));
  result.notes = KernelNotes(compiled.choices);
  if (network_options.lenient)  // otherwise the notes of hundreds of cases would hide their verdicts
    result.notes.insert(result.notes.begin(), network.notes.begin(), network.notes.end());
  return result;
}

struct Tally {
  int passed = 0, failed = 0, unsupported = 0;
  std::map<std::string, int> reasons;  // cause -> number of unsupported cases

  void Add(const CaseResult& result) {
    (result.verdict == CaseVerdict::kPassed ? passed : result.verdict == CaseVerdict::kFailed ? failed : unsupported)++;
    if (result.verdict == CaseVerdict::kUnsupported) ++reasons[result.cause];
  }
  std::string Text() const {
    return std::to_string(passed) + " passed, " + std::to_string(failed) + " failed, " + std::to_string(unsupported) +
           " unsupported";
  }
};

// Returns the folders below `folder` that hold a model.onnx, sorted.
std::vector<fs::path> CasesIn(const fs::path& folder) {
  std::vector<fs::path> cases;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "model.onnx") cases.push_back(entry.path().parent_path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

// Prints the verdict on one case: {"case", "verdict", "text", "cause"}.
void PrintCase(const std::string& name, const CaseResult& result) {
  Console& console = Console::Get();
  const std::string of = name.empty() ? "" : name + ": ";
  for (const std::string& note : result.notes) console.Note(of + note);
  const bool passed = result.verdict == CaseVerdict::kPassed, failed = result.verdict == CaseVerdict::kFailed;
  if (console.json()) {
    Json line;
    if (!name.empty()) line["case"] = name;
    line["verdict"] = passed ? "passed" : failed ? "failed" : "unsupported";
    line["text"] = result.text;
    if (!result.cause.empty()) line["cause"] = result.cause;
    return console.Result(line);
  }
  const char* word = name.empty() ? (passed ? "ok" : "WRONG") : passed ? "passed" : failed ? "FAILED" : "unsupported";
  if (console.quiet() && passed) return;
  console.Result(Painted(word,
                         passed   ? Colour::kGain
                         : failed ? Colour::kFault
                                  : Colour::kRemark,
                         console.colours_out()) +
                 (name.empty() ? ": " : " " + of) + result.text + "\n");
}

int PrintResult(const CaseResult& result) {
  PrintCase("", result);
  return result.verdict == CaseVerdict::kPassed ? kExitOk : kExitWrong;
}

ModelPlace PlaceOf(const VerifyOptions& options) {
  ModelPlace place = options.place;
  place.device = options.model.device;
  return place;
}

// Opens what compiles models for the place where they are checked: on a farm, for the first device that it grants.
Result<CaseSetup> SetUp(const VerifyOptions& options) {
  ModelPlace place = PlaceOf(options);
  if (!place.OnFarm()) {
    ModelSetup setup = TRY(options.model.Open());
    return CaseSetup{options, place, std::move(setup)};
  }
  // The device is given back before the compilation, and each check takes one like it.
  const rpc::DeviceInfo device = TRY(TakeDevice(place, "verify")).info;
  ModelSetup setup = TRY(options.model.Open(ModelOptions::OpenAny, &device));
  return CaseSetup{options, place, std::move(setup)};
}

// Checks a compiled network that is given as a package, on a device of a farm or here.
Result<int> VerifyPackage(const VerifyOptions& options) {
  const std::vector<fs::path> sets = DataSets(options.data[0]);
  if (sets.empty()) return Err("--data ", options.data[0], " has neither output_0.pb nor test_data_set_0");
  const RunnableModel model = TRY(RunnableModel::Open(options.package, PlaceOf(options), "verify"));
  const CaseResult result = TRY(CheckSets(model, sets, options, {}, nullptr));
  if (result.verdict == CaseVerdict::kUnsupported) return Error(result.text);
  return PrintResult(result);
}

// Prints the sums of a folder of cases: {"passed", "failed", "unsupported", "causes"}. `totals` has a line per folder.
void PrintTally(const Tally& all, const std::vector<std::string>& totals) {
  Console& console = Console::Get();
  if (console.json()) {
    Json line;
    line["passed"] = all.passed, line["failed"] = all.failed, line["unsupported"] = all.unsupported;
    line["causes"] = ToJson(all.reasons);
    return console.Result(line);
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [reason, count] : all.reasons) sorted.push_back({-count, reason});
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (const auto& [count, reason] : sorted) text += Format("%6d unsupported: ", -count) + reason + "\n";
  for (size_t i = 0; totals.size() > 1 && i < totals.size(); ++i) text += totals[i] + "\n";
  console.Result(text + all.Text() + "\n");
}

Result<int> Verify(const VerifyOptions& options) {
  if (!options.against.empty()) {
    return VerifyAgainst({options.package, options.against, options.data[0], options.max_error, PlaceOf(options)});
  }
  for (const std::string& data : options.data) {
    if (!fs::is_directory(data)) return Err("--data ", data, ": no such folder");
  }
  if (!options.package.empty()) return VerifyPackage(options);
  if (!options.model.model.empty()) {
    CaseResult result = TRY(CheckCase(options.model.model, options.data[0], TRY(SetUp(options))));
    if (result.verdict == CaseVerdict::kUnsupported) return Error(result.text);
    return PrintResult(result);
  }
  std::vector<std::vector<fs::path>> cases;
  for (const std::string& data : options.data) {
    cases.push_back(CasesIn(data));
    if (cases.back().empty())
      return Err("--data ", data, " holds no case with a model.onnx; for one model give --model as well");
  }
  const CaseSetup setup = TRY(SetUp(options));
  Tally all;
  std::vector<std::string> totals;  // one line of totals per folder
  for (size_t i = 0; i < options.data.size(); ++i) {
    const std::string& data = options.data[i];
    Tally here;
    for (const fs::path& folder : cases[i]) {
      auto checked = CheckCase((folder / "model.onnx").string(), folder, setup);
      CaseResult result = checked.ok() ? *checked : CaseResult{CaseVerdict::kFailed, SentenceOf(checked.error())};
      here.Add(result);
      all.Add(result);
      PrintCase(options.data.size() > 1 ? folder.string() : fs::relative(folder, data).string(), result);
    }
    totals.push_back(data + ": " + here.Text());
  }
  PrintTally(all, totals);
  return all.failed ? kExitWrong : kExitOk;
}

}  // namespace

Command VerifyCommand(CLI::App& root) {
  static constexpr char kCompiled[] = "--package is compiled already";
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* app =
      root.add_subcommand("verify", "Compares a model's outputs with expected ones, in ONNX's test layout.");
  app->footer("Example:\n  autotune verify --model m.onnx --data test_data_set_0\n\n" +
              PassFooter(CompilePassTables()));
  options->model.Add(*app, false);
  options->model.AddDevice(*app);
  app->add_option("--package", options->package, "a compiled network, M.tar or M.so, instead of a model");
  app->add_option(
         "--data", options->data,
         "a folder with files input_0.pb... and output_0.pb..., or with folders test_data_set_* of such files; without "
         "--model and --package, one or more folders of test cases, each with a model.onnx")
      ->required();
  CLI::Option* against = app->add_option(
      "--against", options->against,
      "compare --package with this package of the same network, such as the one of f32, on inputs: --data is a folder "
      "as for quantize --calibrate, or random");
  app->add_option("--max-error", options->max_error,
                  "with --against: the largest error of the worst output, ||y - y32|| / ||y32||")
      ->check(PositiveNumber())
      ->needs(against);
  app->add_option("--rtol", options->tolerance.rtol,
                  "relative tolerance: a float a is right where b is expected if |a-b| <= rtol * |b| + atol * q")
      ->capture_default_str();
  app->add_option("--atol", options->tolerance.atol,
                  "tolerance relative to q, a typical small |b| other than 0: the lower quartile, or less if most are "
                  "large (docs/cli.md, When is an output right?)")
      ->capture_default_str();
  AddFarmOptions(*app, options->place);
  app->add_option("--threads", options->place.threads, "threads of the kernels; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  AddOutput(*app,
            "verdict and text of each case; for folders of cases their sums last; with --against verdict, error, "
            "worst_output, samples, rows, agreeing_rows");
  options->passes.AddChoices(*app);
  return {app, [options] { return Verify(*options); },
          [options, app]() -> Status {
            TRY(options->passes.Check());
            if (options->place.OnFarm() && !options->model.device.empty())
              return Err("--device chooses a device of this machine; --key chooses one of a farm");
            if (!options->package.empty()) {
              TRY(RefuseGiven(options->model.OfCompilation(), kCompiled));
              TRY(RefuseGiven(*app, {"--db", "--pass-option", "--disable-pass"}, kCompiled));
            }
            if (options->model.model.empty() && !options->model.bind.empty()) {
              return Err("--bind needs --model; in a folder of cases, inputs are bound to a case's data if needed");
            }
            if (!options->against.empty()) {
              if (options->package.empty()) return Err("--against compares a --package with another one");
              TRY(RefuseGiven(*app, {"--rtol", "--atol"}, "--against gives an error, and judges it by --max-error"));
            }
            if (!options->model.model.empty() && !options->package.empty())
              return Err("--model and --package exclude each other: give the model, or the package made from it");
            const bool one = !options->model.model.empty() || !options->package.empty();
            if (one && options->data.size() > 1) {
              return Err(options->package.empty() ? "--model" : "--package", " is compared with one folder of data; ",
                         options->data.size(), " are given");
            }
            return {};
          }};
}

}  // namespace autotune::tools
