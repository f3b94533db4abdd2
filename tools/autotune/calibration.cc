#include "tools/autotune/calibration.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/compile.h"
#include "frontend/onnx/import.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Tells how far a loop over samples is: as the live line of a terminal, else every ten seconds as a line.
class Progress {
 public:
  Progress(std::string what, int64_t total) : what_(std::move(what)), total_(total) {}
  ~Progress() { Console::Get().Live(""); }
  Progress(const Progress&) = delete;

  void Done(int64_t samples) {
    constexpr double kBetweenLines = 10, kBetweenDraws = 0.2;  // seconds
    Console& console = Console::Get();
    const double now = SecondsSince(begin_);
    if (samples == total_ || now - told_ < (console.HasLive() ? kBetweenDraws : kBetweenLines)) return;
    told_ = now;
    const double left = now / static_cast<double>(samples) * static_cast<double>(total_ - samples);
    const std::string line = what_ + ": " + std::to_string(samples) + " of " + CountText(total_, "sample") + ", " +
                             DurationText(left) + " left";
    if (console.HasLive()) return console.Live(line);
    console.Status(line);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const std::string what_;
  const int64_t total_;
  const Clock::time_point begin_ = Clock::now();
  double told_ = 0;
};

// Calls visit(i, number) for each number of a tensor.
template <class Visit>
void ForEachNumber(const Tensor& tensor, const Visit& visit) {
  if (DataTypeText(tensor.dtype()) == "f32") {
    const auto* numbers = tensor.Data<float>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) visit(i, static_cast<double>(numbers[i]));
    return;
  }
  const graph::TensorValue value{{*DType::Parse(DataTypeText(tensor.dtype())), tensor.shape()},
                                 graph::SharedBytes::Copy(tensor.bytes())};
  for (int64_t i = 0; i < tensor.num_elements(); ++i) visit(i, value.Number(i));
}

// The sums of squares of an output's numbers and of their differences, over the samples.
struct SquareSums {
  double difference = 0, exact = 0;

  void Add(const Tensor& got, const Tensor& want) {
    std::vector<double> numbers(static_cast<size_t>(want.num_elements()));
    ForEachNumber(want, [&](int64_t i, double y) { numbers[static_cast<size_t>(i)] = y, exact += y * y; });
    ForEachNumber(got, [&](int64_t i, double y) {
      const double error = y - numbers[static_cast<size_t>(i)];
      difference += error * error;
    });
  }
  double Error() const { return std::sqrt(exact > 0 ? difference / exact : difference); }
};

}  // namespace

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

Result<RunnableModel> Calibration::Compiled(const std::string& model,
                                            const std::vector<std::string>& extra_outputs) const {
  const NetworkOptions& options = setup_.network;
  ImportOptions import{
      .shapes = options.shapes, .fixed = options.fixed, .dims = options.dims, .lenient = options.lenient};
  import.extra_outputs = extra_outputs;
  const ImportedModel imported = TRY(ImportOnnxBytes(model, "the model", import));
  const Network network = TRY(MakeNetwork(imported.module, options, setup_.target, *setup_.builder));
  CompileResult compiled = TRY(CompileFrom(network, setup_.target, {}, *setup_.builder));
  return RunnableModel::Of(TRY(LoadModel(std::move(compiled.package), setup_.threads)));
}

Status Calibration::Run(const RunnableModel& network, int64_t sample) {
  const std::vector<Tensor> inputs = TRY(data_.Sample(sample));
  for (size_t i = 0; i < inputs.size(); ++i) TRY(network.SetInput(TRY(network.InputIndex(inputs_[i].name)), inputs[i]));
  return network.RunOnce();
}

Status Calibration::Observe(const std::vector<std::string>& names, std::map<std::string, RangeObserver>& observers) {
  std::vector<std::string> extra;
  for (const std::string& name : names)
    if (std::ranges::count(outputs_, name) == 0) extra.push_back(name);
  Console::Get().Status("compiling the network with " + CountText(static_cast<int64_t>(names.size()), "tensor") +
                        " to observe");
  const RunnableModel network = TRY(Compiled(quantizer_.FloatModel(), extra));
  Progress progress("ranges", data_.size());
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(network, sample));
    for (int64_t i = 0; i < network.num_outputs(); ++i) {
      const auto observer = observers.find(network.info().outputs[static_cast<size_t>(i)].name);
      if (observer == observers.end() || std::ranges::count(names, observer->first) == 0) continue;
      const Tensor values = TRY(network.Output(i));
      observer->second.Add({values.Data<float>(), static_cast<size_t>(values.num_elements())});
    }
    progress.Done(sample + 1);
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
  Console::Get().Status("compiling the network with the errors of its products");
  const ModelQuantizer::Probes probes = TRY(quantizer_.ProbeModel());
  const RunnableModel network = TRY(Compiled(probes.model, {}));
  const auto& products = quantizer_.products();
  ModelQuantizer::MeanErrors errors(products.size());
  std::map<std::string, size_t> by_output;
  for (size_t p = 0; p < products.size(); ++p) {
    const int64_t values = counts_[products[p].result] / products[p].channels * data_.size();
    if (values < kLeastValues) continue;
    by_output[probes.outputs[p]] = p;
    errors[p].assign(static_cast<size_t>(products[p].channels), 0);
  }
  Progress progress("mean errors", data_.size());
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(network, sample));
    for (int64_t i = 0; i < network.num_outputs(); ++i) {
      const auto product = by_output.find(network.info().outputs[static_cast<size_t>(i)].name);
      if (product == by_output.end()) continue;
      const Tensor mean = TRY(network.Output(i));
      std::vector<float>& error = errors[product->second];
      for (size_t c = 0; c < error.size(); ++c) error[c] += mean.Data<float>()[c] / static_cast<float>(data_.size());
    }
    progress.Done(sample + 1);
  }
  for (std::vector<float>& error : errors)
    if (!std::ranges::all_of(error, [](float e) { return std::isfinite(e); })) error.clear();
  return errors;
}

Result<NetworkError> Calibration::ErrorOf(const std::string& model) {
  Console::Get().Status("compiling the quantized network");
  const RunnableModel network = TRY(Compiled(model, {}));
  if (!exact_) exact_ = TRY(Compiled(quantizer_.FloatModel(), {}));
  std::vector<SquareSums> sums(outputs_.size());
  Progress progress("error", data_.size());
  for (int64_t sample = 0; sample < data_.size(); ++sample) {
    TRY(Run(network, sample));
    TRY(Run(*exact_, sample));
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i].Add(TRY(network.Output(static_cast<int64_t>(i))), TRY(exact_->Output(static_cast<int64_t>(i))));
    progress.Done(sample + 1);
  }
  NetworkError worst{-1, ""};
  for (size_t i = 0; i < sums.size(); ++i)
    if (!(sums[i].Error() <= worst.error)) worst = {sums[i].Error(), outputs_[i]};
  return worst;
}

}  // namespace autotune::tools
