// Declares and parses the options that name a network: a model or one operator.
#include "frontend/operator/operator.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/usage.h"

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
             "rounded to bf16, a relative error of up to 1/256 each, where that is faster; sums stay f32), or int8 "
             "(data "
             "that meet weights of 4 or 8 bits in blocks are rounded to 8 bits, as by accuracy_level 4); tune also "
             "knows auto (f32, bf16 or 8 bits for each product, by measured time under --max-error or --min-agreement)")
          ->check(CLI::IsMember({"model", "bf16", "int8", "auto"}))
          ->capture_default_str());
}

void ModelOptions::AddPrecisionChoice(CLI::App& app) {
  app.add_option("--max-error", bound.max_error,
                 "for --precision auto: the largest error of the worst output, ||y - y32|| / ||y32||, such as 0.01")
      ->check(PositiveNumber());
  app.add_option("--min-agreement", bound.min_agreement,
                 "for --precision auto: the least share of the first output's rows whose largest number stays at its "
                 "place, such as 0.99; rows in which f32 hardly tells the two largest apart do not count")
      ->check(PositiveNumber(/*most=*/1));
  app.add_option("--calibrate", calibrate,
                 "for --precision auto: inputs for which errors and the ranges of tensors are measured: a folder with "
                 "test_data_set_*/input_0.pb, .npz or .npy files; random, only to measure speed");
}

void ModelOptions::AddDevice(CLI::App& app) { app.add_option("--device", device, kDeviceHelp); }

void ModelOptions::AddWithOperator(CLI::App& app) {
  Add(app, /*model_required=*/false);
  app.add_option("--op", op, "one operator instead of a model, such as 'matmul:512,512,512'; forms below")
      ->excludes("--model");
}

Result<ModelSetup> ModelOptions::Open(const OpenDatabase& open_store, const rpc::DeviceInfo* farm_device) const {
  ModelSetup setup = TRY(ModelRequest::Open(nullptr, open_store, farm_device));
  if (!setup.target.note.empty()) Console::Get().Note(setup.target.note);
  return setup;
}

void AddOutput(CLI::App& app, const std::string& fields) {
  app.add_flag_function(
      "--json", [](int64_t count) { Console::Get().SetJson(count > 0); }, "print lines of JSON: " + fields);
  app.add_flag_function(
      "-q,--quiet", [](int64_t count) { Console::Get().SetQuiet(count > 0); }, "print results and errors only");
}

std::string OperatorFooter(const std::string& example) {
  return "Example:\n  " + example +
         "\n\nOperators for --op (weights are constant; dtype=f32, f64, f16 or bf16 for all;\nproducts of matrices, "
         "conv2d and depthwise_conv2d also u8s8, s8s8 and u8u8):\n" +
         OperatorHelp();
}

}  // namespace autotune::tools
