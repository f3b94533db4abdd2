#include "service/calibration.h"

#include <algorithm>
#include <cmath>

#include "compiler/compile.h"
#include "frontend/onnx/import.h"
#include "service/text.h"
#include "support/machine_description.h"

namespace autotune {

int64_t CalibrationMemory() {
  constexpr int64_t kPartOfMemory = 8;  // [chosen]
  constexpr int64_t kLeastMemory = int64_t{1} << 28;
  return std::max(kLeastMemory, DescribeHost().memory_bytes / kPartOfMemory);
}

Result<Calibration> Calibration::Open(const ModelQuantizer& quantizer, const std::string& where,
                                      CalibrationSetup setup) {
  Calibration calibration(quantizer);
  calibration.setup_ = std::move(setup);
  TRY(calibration.Describe(where));
  return calibration;
}

Status Calibration::Describe(const std::string& where) {
  std::vector<std::string> names = quantizer_.Activations();
  for (const auto& product : quantizer_.products()) names.push_back(product.result);
  const NetworkOptions& options = setup_.network;
  ImportOptions import{
      .shapes = options.shapes, .fixed = options.fixed, .dims = options.dims, .lenient = options.lenient};
  import.extra_outputs = names;
  ImportedModel model = TRY(ImportOnnxBytes(quantizer_.FloatModel(), "the model", import));
  notes_ = std::move(model.notes);
  const graph::Graph& main = model.module.main();
  for (graph::ValueId input : main.inputs) {
    const graph::TensorSpec& spec = main.Spec(input);
    inputs_.push_back({main.values[input].name, spec.dtype.Text(), spec.shape});
  }
  const size_t own = main.outputs.size() - names.size();
  for (size_t i = 0; i < main.outputs.size(); ++i) {
    if (i < own) outputs_.push_back(main.output_names[i]);
    counts_[main.output_names[i]] = main.Spec(main.outputs[i]).NumElements();
  }
  std::vector<std::string> fixed;
  for (const auto& [name, value] : options.fixed) fixed.push_back(name);
  data_ = TRY(CalibrationData::Open(where, inputs_, fixed));
  return {};
}

Result<Hash128> Calibration::HashOfSamples() {
  std::string hashes;
  for (int64_t i = 0; i < data_.size(); ++i)
    for (const Tensor& tensor : TRY(data_.Sample(i))) hashes += HashBytes128(tensor.bytes()).Hex();
  return HashBytes128(hashes);
}

void Calibration::Tell(const std::string& step, int64_t done, int64_t total) const {
  if (setup_.on_step) setup_.on_step(step, done, total);
}

Result<Calibration::CompiledForm> Calibration::CompileWith(const std::string& model,
                                                           const std::vector<std::string>& extra_outputs,
                                                           bool bf16) const {
  NetworkOptions options = setup_.network;
  options.bf16 |= bf16;
  ImportOptions import{
      .shapes = options.shapes, .fixed = options.fixed, .dims = options.dims, .lenient = options.lenient};
  import.extra_outputs = extra_outputs;
  const ImportedModel imported = TRY(ImportOnnxBytes(model, "the model", import));
  CompiledForm form;
  form.network = TRY(MakeNetwork(imported.module, options, setup_.target, *setup_.builder));
  form.package = TRY(CompileFrom(form.network, setup_.target, {}, *setup_.builder)).package;
  return form;
}

Result<Calibration::CompiledForm> Calibration::Compile(const std::string& model, bool bf16) const {
  return CompileWith(model, {}, bf16);
}

Result<LoadedModel> Calibration::Loaded(const std::string& model, const std::vector<std::string>& extra_outputs) const {
  return LoadModel(TRY(CompileWith(model, extra_outputs, false)).package, setup_.threads);
}

Status Calibration::Run(GraphExecutor& network, int64_t sample) {
  const std::vector<Tensor> inputs = TRY(data_.Sample(sample));
  for (size_t i = 0; i < inputs.size(); ++i) TRY(network.SetInput(TRY(network.InputIndex(inputs_[i].name)), inputs[i]));
  return network.Run();
}

Status Calibration::Observe(const std::vector<std::string>& names, std::map<std::string, RangeObserver>& observers) {
  std::vector<std::string> extra;
  for (const std::string& name : names)
    if (std::ranges::count(outputs_, name) == 0) extra.push_back(name);
  Tell("compiling the network with " + CountText(static_cast<int64_t>(names.size()), "tensor") + " to observe");
  const LoadedModel network = TRY(Loaded(quantizer_.FloatModel(), extra));
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(*network.executor, sample));
    for (int64_t i = 0; i < network.executor->num_outputs(); ++i) {
      const auto observer = observers.find(network.info.outputs[static_cast<size_t>(i)].name);
      if (observer == observers.end() || std::ranges::count(names, observer->first) == 0) continue;
      const Tensor values = network.executor->Output(i);
      observer->second.Add({values.Data<float>(), static_cast<size_t>(values.num_elements())});
    }
    Tell("ranges", sample + 1, data_.size());
  }
  return {};
}

Result<std::map<std::string, ValueRange>> Calibration::Ranges() {
  std::map<std::string, RangeObserver> observers;
  std::vector<std::string> batch;
  int64_t bytes = 0;
  const auto observe = [&]() -> Status {
    if (!batch.empty()) TRY(Observe(batch, observers));
    batch.clear();
    bytes = 0;
    return {};
  };
  for (const std::string& name : quantizer_.Activations()) {
    RangeObserver& observer = observers.try_emplace(name, setup_.percentile).first->second;
    const auto input = std::ranges::find_if(inputs_, [&](const TensorSpec& s) { return s.name == name; });
    if (input != inputs_.end()) {
      for (int64_t sample = 0; sample < data_.size(); ++sample) {
        const Tensor values = TRY(data_.Sample(sample))[static_cast<size_t>(input - inputs_.begin())];
        observer.Add({values.Data<float>(), static_cast<size_t>(values.num_elements())});
      }
      continue;
    }
    const int64_t more = counts_[name] * static_cast<int64_t>(sizeof(float));
    if (bytes + more > setup_.memory_bytes) TRY(observe());
    batch.push_back(name);
    bytes += more;
  }
  TRY(observe());
  std::map<std::string, ValueRange> ranges;
  for (const auto& [name, observer] : observers) {
    ranges[name] = observer.Range();
    if (observer.infinite() > 0)
      notes_.push_back("tensor '" + name + "': " + CountText(observer.infinite(), "value") +
                       " infinite or no number, which its range leaves out");
  }
  return ranges;
}

Result<ModelQuantizer::MeanErrors> Calibration::MeanErrors() {
  constexpr int64_t kLeastValues = 32;  // [chosen] of each channel, for its mean to be one of the network
  Tell("compiling the network with the errors of its products");
  const ModelQuantizer::Probes probes = TRY(quantizer_.ProbeModel());
  const LoadedModel network = TRY(Loaded(probes.model));
  const auto& products = quantizer_.products();
  ModelQuantizer::MeanErrors errors(products.size());
  std::map<std::string, size_t> by_output;
  for (size_t p = 0; p < products.size(); ++p) {
    const int64_t values = counts_[products[p].result] / products[p].channels * data_.size();
    if (values < kLeastValues) continue;
    by_output[probes.outputs[p]] = p;
    errors[p].assign(static_cast<size_t>(products[p].channels), 0);
  }
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(*network.executor, sample));
    for (int64_t i = 0; i < network.executor->num_outputs(); ++i) {
      const auto product = by_output.find(network.info.outputs[static_cast<size_t>(i)].name);
      if (product == by_output.end()) continue;
      const Tensor mean = network.executor->Output(i);
      std::vector<float>& error = errors[product->second];
      for (size_t c = 0; c < error.size(); ++c) error[c] += mean.Data<float>()[c] / static_cast<float>(data_.size());
    }
    Tell("mean errors", sample + 1, data_.size());
  }
  for (std::vector<float>& error : errors)
    if (!std::ranges::all_of(error, [](float e) { return std::isfinite(e); })) error.clear();
  return errors;
}

Result<NetworkError> Calibration::ErrorOf(const Package& package) {
  const LoadedModel network = TRY(LoadModel(package, setup_.threads));
  if (!exact_) exact_ = TRY(Loaded(quantizer_.FloatModel()));
  ErrorSums sums(outputs_);
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(*network.executor, sample));
    TRY(Run(*exact_->executor, sample));
    for (int64_t i = 0; i < sums.outputs(); ++i) sums.Add(i, network.executor->Output(i), exact_->executor->Output(i));
    Tell("error", sample + 1, data_.size());
  }
  return sums.Total();
}

Result<std::vector<ProductErrors>> Calibration::ErrorsAlone(int64_t samples) {
  Tell("compiling the network with each product in each precision");
  const ModelQuantizer::Switched switched = TRY(quantizer_.SwitchedModel());
  const LoadedModel network = TRY(Loaded(switched.model));
  GraphExecutor& executor = *network.executor;
  const auto set = [&](const std::string& name, float value) -> Status {
    const Tensor number = TRY(Tensor::Empty({}, TRY(DataTypeFromText("f32"))));
    *number.Data<float>() = value;
    return executor.SetInput(TRY(executor.InputIndex(name)), number);
  };
  for (const auto& names : switched.switches)
    for (const std::string& name : {names.int8, names.bf16}) TRY(set(name, 0));
  samples = std::min(samples, data_.size());
  const auto products = static_cast<int64_t>(switched.switches.size());
  std::vector<std::array<ErrorSums, 2>> sums(switched.switches.size(), {ErrorSums(outputs_), ErrorSums(outputs_)});
  for (int64_t sample = 0; sample < samples; ++sample) {
    TRY(Run(executor, sample));
    std::vector<Tensor> exact;
    for (int64_t i = 0; i < std::ssize(outputs_); ++i) exact.push_back(TRY(executor.Output(i).Copy()));
    for (int64_t p = 0; p < products; ++p) {
      const auto& names = switched.switches[p];
      for (const bool is_int8 : {false, true}) {
        const std::string& name = is_int8 ? names.int8 : names.bf16;
        TRY(set(name, 1));
        TRY(executor.Run());
        TRY(set(name, 0));
        for (int64_t i = 0; i < std::ssize(outputs_); ++i) sums[p][is_int8].Add(i, executor.Output(i), exact[i]);
      }
      Tell("error of each layer", sample * products + p + 1, samples * products);
    }
  }
  std::vector<ProductErrors> errors;
  for (const auto& of_product : sums) errors.push_back({0, of_product[0].Total().error, of_product[1].Total().error});
  return errors;
}

}  // namespace autotune
