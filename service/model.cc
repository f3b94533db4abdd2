#include "service/model.h"

#include <charconv>
#include <cmath>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "frontend/operator/operator.h"
#include "runtime/device.h"
#include "service/device_target.h"
#include "service/gpus.h"
#include "support/hint.h"
#include "support/shell.h"

namespace autotune {
namespace {

Error AutoIsForTune() {
  return WithHint(Err("--precision auto is for tune"), "see what it has chosen: tune --precision auto --trials 1");
}

// Returns the shortest text that reads as exactly this number.
std::string ExactText(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

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

Status ModelRequest::CheckToTune() const {
  if (model.empty() && bytes.empty() && op.empty()) return Err("give --model FILE.onnx, or --op OPERATOR");
  if (!op.empty() && !(shapes.empty() && dims.empty() && bind.empty() && !lenient))
    return Err("--shape, --dim, --bind and --lenient are for --model, not for --op");
  if (precision != "model" && precision != "bf16" && precision != "int8" && precision != "auto")
    return Err("--precision ", precision, ": say model, bf16, int8 or auto");
  return CheckPrecision();
}

Status ModelRequest::CheckSource() const {
  if (precision == "auto") return AutoIsForTune();
  return CheckToTune();
}

Status ModelRequest::CheckPrecision() const {
  const bool bounded = bound.max_error != 0 || bound.min_agreement != 0;
  if (precision != "auto") {
    if (bounded || !calibrate.empty())
      return Err("--max-error, --min-agreement and --calibrate go with --precision auto");
    return {};
  }
  if (!op.empty()) return Err("--precision auto is for --model, not for --op");
  if (!bounded)
    return WithHint(Err("--precision auto needs a bound on the error: --max-error or --min-agreement"),
                    "--max-error 0.01 allows ||y - y32|| / ||y32|| = 1 %");
  if (!(std::isfinite(bound.max_error) && bound.max_error >= 0 && bound.min_agreement >= 0 && bound.min_agreement <= 1))
    return Err("--max-error is a number above 0, and --min-agreement one from 0 to 1");
  if (calibrate.empty())
    return WithHint(Err("--precision auto needs --calibrate, inputs for which errors are measured"),
                    "name a folder with test_data_set_*/input_0.pb, .npz or .npy files; random suffices to measure "
                    "speed");
  return {};
}

Status ModelRequest::CheckDevice(bool runs) const {
  if (device.empty() || runs || IsBareGpu(target)) return {};
  return Err("--device ", device, " has no effect: --target ", target,
             " takes no limits from a device of this machine, and nothing runs there");
}

Result<Target> ModelRequest::ParseTarget(Builder& builder, const rpc::DeviceInfo* farm_device) const {
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
  std::vector<std::string> features = TRY(CheckTarget(parsed, builder));
  if (is_stated) TRY(CheckFeatures(parsed, std::move(features), *farm_device));
  return parsed;
}

Result<NetworkOptions> ModelRequest::ParseNetwork() const {
  if (precision == "auto") return AutoIsForTune();
  NetworkOptions options{
      .winograd = !no_winograd, .bf16 = precision == "bf16", .int8 = precision == "int8", .lenient = lenient};
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

Result<ModelSetup> ModelRequest::Open(const std::atomic<bool>* stop, const OpenDatabase& open_store,
                                      const rpc::DeviceInfo* farm_device) const {
  BuildWorkersOptions workers{.stop = stop};
  if (!programs.empty()) workers.command = {programs + "/autotune", "--build-worker"};
  ModelSetup setup;
  setup.builder = TRY(MakeBuildWorkers(workers));
  setup.target = TRY(ParseTarget(*setup.builder, farm_device));
  setup.network = TRY(ParseNetwork());
  setup.store = TRY(open_store(db));
  return setup;
}

Result<Network> ModelRequest::Load(const NetworkOptions& options, const Target& parsed_target, Builder& builder,
                                   const PassContext& passes) const {
  if (!bytes.empty()) return LoadNetworkBytes(bytes, model, options, parsed_target, builder, passes);
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
  std::string tasks = std::string(options.winograd ? "" : "no winograd") + (options.bf16 ? "bf16" : "") +
                      (options.int8 ? "int8" : "") + passes.config().CodeKey();
  for (const NetworkTask& task : network.tasks) tasks += task.hash.Hex();
  network.digest = HashBytes128(tasks);
  return network;
}

std::string ModelLine(const ModelRequest& request) {
  std::string line;  // neither for a recorded device, which has tasks of its own
  if (!request.model.empty()) line += " --model " + ShellWord(request.model);
  if (!request.op.empty()) line += " --op " + ShellWord(request.op);
  for (const std::string& shape : request.shapes) line += " --shape " + ShellWord(shape);
  for (const std::string& dim : request.dims) line += " --dim " + ShellWord(dim);
  for (const std::string& text : request.bind) line += " --bind " + ShellWord(text);
  if (request.target != "cpu") line += " --target " + ShellWord(request.target);
  if (!request.device.empty()) line += " --device " + ShellWord(request.device);
  if (!request.db.empty()) line += " --db " + ShellWord(request.db);
  if (request.allow_tf32) line += " --allow-tf32";
  if (request.no_winograd) line += " --no-winograd";
  if (request.precision != "model") line += " --precision " + request.precision;
  if (request.bound.max_error != 0) line += " --max-error " + ExactText(request.bound.max_error);
  if (request.bound.min_agreement != 0) line += " --min-agreement " + ExactText(request.bound.min_agreement);
  if (!request.calibrate.empty()) line += " --calibrate " + ShellWord(request.calibrate);
  if (request.lenient) line += " --lenient";
  return line;
}

}  // namespace autotune
