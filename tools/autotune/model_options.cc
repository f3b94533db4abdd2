// Declares and parses the options that name a network: a model or one operator.
#include <algorithm>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "frontend/operator/operator.h"
#include "runtime/device.h"
#include "support/hint.h"
#include "support/shell.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/device_target.h"
#include "tools/autotune/gpus.h"

namespace autotune::tools {

void ModelOptions::AddInputs(CLI::App& app) {
  of_compilation_ = {
      app.add_option("--shape", shapes, "NAME:1,3,224,224, the shape of an input that the model leaves open"),
      app.add_option("--dim", dims,
                     "NAME=128, the size of the open dimension NAME of the model's inputs; or the largest number of "
                     "boxes of the NonMaxSuppression whose result is NAME"),
      app.add_option("--bind", bind,
                     "NAME=FILE.pb makes an input this constant: for models that take shapes, axes or pads as inputs"),
      app.add_flag("--lenient", lenient,
                   "import a model although its nodes have attributes, inputs or outputs that their operators lack, or "
                   "its tensors types that are not the declared ones; prints a note for each")};
}

void ModelOptions::Add(CLI::App& app, bool model_required) {
  auto* option = app.add_option("--model", model, "the ONNX model");
  if (model_required) option->required();
  AddInputs(app);
  of_compilation_.push_back(
      app.add_option(
             "--target", target,
             "what to compile for: cpu (this machine, or with --key the device that the tracker grants); 'llvm "
             "-mtriple=... -mcpu=... -num-cores=...' (another CPU); c "
             "instead of cpu or llvm (C sources, which a C compiler compiles); opencl (this machine's first OpenCL "
             "device) or 'opencl -num-cores=16 -max-threads=256 -shared=32K' (another one); 'cuda -arch=sm_90'")
          ->capture_default_str());
  app.add_option("--db", db,
                 "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
  of_compilation_.push_back(
      app.add_flag("--allow-tf32", allow_tf32,
                   "matrix products may round their f32 operands to TF32 (10 bits of mantissa), for tensor cores; adds "
                   "-tf32=1 to the target"));
  of_compilation_.push_back(
      app.add_flag("--no-winograd", no_winograd,
                   "leave out Winograd convolutions; their rounding errors are a few times those of the direct sum"));
  of_compilation_.push_back(
      app.add_option(
             "--precision", precision,
             "of the operands of products with constant weights: model (as the model has them), or bf16 (f32 is "
             "rounded to bf16, a relative error of up to 1/256 each, where that is faster; sums stay f32)")
          ->check(CLI::IsMember({"model", "bf16"}))
          ->capture_default_str());
}

void ModelOptions::AddDevice(CLI::App& app) { app.add_option("--device", device, kDeviceHelp); }

void ModelOptions::AddWithOperator(CLI::App& app) {
  Add(app, /*model_required=*/false);
  app.add_option("--op", op, "one operator instead of a model, such as 'matmul:512,512,512'; forms below")
      ->excludes("--model");
}

Status ModelOptions::CheckSource() const {
  if (model.empty() && op.empty()) return Err("give --model FILE.onnx, or --op OPERATOR");
  if (!op.empty() && !(shapes.empty() && dims.empty() && bind.empty() && !lenient))
    return Err("--shape, --dim, --bind and --lenient are for --model, not for --op");
  return {};
}

namespace {

// Returns true if `text` names a kind of GPU without options. The limits of such a target are read from this machine's
// device.
bool IsBareGpu(const std::string& text) {
  const std::optional<TargetKind> kind = EnumFromText<TargetKind>(text);
  return kind && Target{.kind = *kind}.IsGpu();
}

// Returns the target of this machine's device `which` of a kind, with the device's limits. Without `which`, of the
// first device.
Result<Target> TargetOfDevice(const std::string& kind, const std::string& which) {
  const int type = TRY(DeviceTypeFromName(kind));
  if (!which.empty()) {
    const DevicePtr chosen = TRY_NOTE(OpenChosenDevice(TRY(DeviceChoiceOf(type, which))), "--device " + which);
    return Target::Parse(StatedTarget(kind, chosen->limits()));
  }
  Result<DevicePtr> device = OpenChosenDevice(DeviceChoice{static_cast<DLDeviceType>(type), ""});
  if (!device.ok() && kind == ToText(TargetKind::kCuda)) {
    return WithHint(
        Err("no CUDA driver was found (", device.error().message, ")"),
        "`autotune compile` needs none for a stated GPU: --target 'cuda -arch=sm_90'; tuning needs a device, "
        "here or behind --tracker");
  }
  if (!device.ok()) {
    return WithHint(
        Err("cannot open a device of kind ", kind, " to read the limits of --target ", kind, " from it (",
            device.error().Text(), ")"),
        "state the limits instead, for example: --target '" + kind + " -num-cores=16 -max-threads=256 -shared=32K'");
  }
  return Target::Parse(StatedTarget(kind, (*device)->limits()));
}

}  // namespace

Status ModelOptions::CheckDevice(bool runs) const {
  if (device.empty() || runs || IsBareGpu(target)) return {};
  return Err("--device ", device, " has no effect: --target ", target,
             " takes no limits from a device of this machine, and nothing runs there");
}

Result<Target> ModelOptions::ParseTarget(Builder& builder, const rpc::DeviceInfo* farm_device) const {
  const bool is_stated = farm_device && IsStated(*farm_device);
  Target parsed = TRY(is_stated           ? TargetFor(target, *farm_device)
                      : IsBareGpu(target) ? TargetOfDevice(target, device)
                                          : Target::Parse(target));
  if (!device.empty() && !parsed.IsGpu())
    return Err("--device ", device, " goes with --target cuda or --target opencl, not with --target ", target);
  if (allow_tf32 && !parsed.has_mma) {
    const std::string what(parsed.arch.empty() ? ToText(parsed.kind) : parsed.arch);
    return Err("--allow-tf32: ", what, " has no tensor cores for TF32; NVIDIA's GPUs have from sm_80 on");
  }
  parsed.tf32 |= allow_tf32;
  if (!parsed.note.empty()) Console::Get().Note(parsed.note);
  TRY(CheckTarget(parsed, builder));
  if (is_stated) TRY(CheckFeatures(parsed, *farm_device));
  return parsed;
}

Result<NetworkOptions> ModelOptions::ParseNetwork() const {
  NetworkOptions options{.winograd = !no_winograd, .bf16 = precision == "bf16", .lenient = lenient};
  for (const std::string& shape : shapes) {
    auto [name, dims] = TRY(ParseShapeOption(shape));
    options.shapes[name] = dims;
  }
  for (const std::string& dim : dims) options.dims.insert(TRY(ParseDimOption(dim)));
  for (const std::string& text : bind) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      return Err("--bind ", text, ": write it as NAME=FILE.pb");
    }
    NamedTensor tensor = TRY(ReadTensorPb(text.substr(equals + 1)));
    options.fixed.insert_or_assign(text.substr(0, equals), std::move(tensor.value));
  }
  return options;
}

Result<Session> ModelOptions::Open(const std::atomic<bool>* stop, const OpenDatabase& open_store,
                                   const rpc::DeviceInfo* farm_device) const {
  Session session;
  session.builder = TRY(MakeBuildWorkers({.stop = stop}));
  session.target = TRY(ParseTarget(*session.builder, farm_device));
  session.network = TRY(ParseNetwork());
  session.store = TRY(open_store(db));
  return session;
}

Result<Network> ModelOptions::Load(const NetworkOptions& options, const Target& parsed_target, Builder& builder,
                                   const PassContext& passes) const {
  if (op.empty()) {
    Result<Network> network = LoadNetwork(model, options, parsed_target, builder, passes);
    if (!network.ok() && (model.ends_with(".tar") || model.ends_with(".so")))
      return WithHint(network.error(),
                      "run, bench, explain and inspect take a package without --model, verify with --package");
    return network;
  }
  OperatorModule parsed = TRY(ParseOperator(op));
  Network network =
      TRY_NOTE(MakeNetwork(parsed.module, options, parsed_target, builder, passes), "while preparing --op " + op);
  network.name = parsed.name;
  // The digest depends on the tasks and the options that change their code, but not on the text of --op. So two
  // spellings of one operator share their runs.
  std::string tasks =
      std::string(options.winograd ? "" : "no winograd") + (options.bf16 ? "bf16" : "") + passes.config().CodeKey();
  for (const NetworkTask& task : network.tasks) tasks += task.hash.Hex();
  network.digest = HashBytes128(tasks);
  return network;
}

std::string ModelLine(const ModelOptions& options) {
  std::string line = options.op.empty() ? " --model " + ShellWord(options.model) : " --op " + ShellWord(options.op);
  for (const std::string& shape : options.shapes) line += " --shape " + ShellWord(shape);
  for (const std::string& dim : options.dims) line += " --dim " + ShellWord(dim);
  for (const std::string& text : options.bind) line += " --bind " + ShellWord(text);
  if (options.target != "cpu") line += " --target " + ShellWord(options.target);
  if (!options.device.empty()) line += " --device " + ShellWord(options.device);
  if (!options.db.empty()) line += " --db " + ShellWord(options.db);
  if (options.allow_tf32) line += " --allow-tf32";
  if (options.no_winograd) line += " --no-winograd";
  if (options.precision != "model") line += " --precision " + options.precision;
  if (options.lenient) line += " --lenient";
  return line;
}

void AddOutput(CLI::App& app, const std::string& fields) {
  app.add_flag_function(
      "--json", [](int64_t count) { Console::Get().SetJson(count > 0); }, "print lines of JSON: " + fields);
  app.add_flag_function(
      "-q,--quiet", [](int64_t count) { Console::Get().SetQuiet(count > 0); }, "print results and errors only");
}

std::string OperatorFooter(const std::string& example) {
  return "Example:\n  " + example +
         "\n\nOperators for --op (weights are constant; dtype=f32, f64, f16 or bf16 for all;\nproducts of matrices "
         "also u8s8, s8s8 and u8u8):\n" +
         OperatorHelp();
}

}  // namespace autotune::tools
