// Runs a network and its quantized forms on samples of inputs, to find ranges and errors. Compiles them for the
// processor of this machine, with default schedules. Not thread-safe.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "compiler/network.h"
#include "frontend/onnx/quantizer.h"
#include "package/load.h"
#include "service/calibration_data.h"
#include "service/network_error.h"
#include "support/hash.h"

namespace autotune {

// Hears how far a step of the work is, such as "ranges", over samples. A total of 0: the step has begun, and has no
// parts.
using StepObserver = std::function<void(const std::string& step, int64_t done, int64_t total)>;

// Of a product, by precision.
using ProductErrors = std::array<double, std::size(EnumNames<Precision>::kNames)>;

// Returns the part of this machine's memory that the observed tensors of one run may take.
int64_t CalibrationMemory();

struct CalibrationSetup {
  NetworkOptions network;
  Target target;
  Builder* builder = nullptr;
  int threads = 0;                             // of the runs; 0: one per CPU
  double percentile = 100;                     // of the values that a range covers
  int64_t memory_bytes = CalibrationMemory();  // for the tensors that one run returns
  StepObserver on_step = nullptr;              // null: nobody
};

class Calibration {
 public:
  // Opens the samples in `where` (CalibrationData). `quantizer` must outlive the object.
  static Result<Calibration> Open(const ModelQuantizer& quantizer, const std::string& where, CalibrationSetup setup);

  const CalibrationData& data() const { return data_; }
  Result<Hash128> HashOfSamples();
  // Returns the elements of a tensor that the quantizer names.
  int64_t ElementsOf(const std::string& tensor) const { return counts_.at(tensor); }
  const std::vector<std::string>& notes() const { return notes_; }  // of the import

  // Returns the ranges of the tensors that become u8. Runs the network several times if they do not fit memory at once.
  Result<std::map<std::string, ValueRange>> Ranges();
  // Returns the mean errors of the products. A product of few values gets none, since its mean would be that of the
  // samples only.
  Result<ModelQuantizer::MeanErrors> MeanErrors();
  // A form of the model, compiled. `bf16`: its products may be rounded (NetworkOptions::bf16).
  struct CompiledForm {
    Network network;
    Package package;
  };
  Result<CompiledForm> Compile(const std::string& model, bool bf16 = false) const;
  // Returns the error of a form of the model, over all samples.
  Result<NetworkError> ErrorOf(const Package& package);
  // Runs a form of the model on a sample.
  Status Run(GraphExecutor& network, int64_t sample);
  // Returns the error of each product alone, in each precision (ModelQuantizer::SwitchedModel), over at most `samples`
  // samples. Parallel to the quantizer's products.
  Result<std::vector<ProductErrors>> ErrorsAlone(int64_t samples);

 private:
  explicit Calibration(const ModelQuantizer& quantizer) : quantizer_(quantizer) {}
  Status Describe(const std::string& where);
  Result<CompiledForm> CompileWith(const std::string& model, const std::vector<std::string>& extra_outputs,
                                   bool bf16) const;
  Result<LoadedModel> Loaded(const std::string& model, const std::vector<std::string>& extra_outputs = {}) const;
  void Tell(const std::string& step, int64_t done = 0, int64_t total = 0) const;
  Status Observe(const std::vector<std::string>& names, std::map<std::string, RangeObserver>& observers);

  const ModelQuantizer& quantizer_;
  CalibrationSetup setup_;
  CalibrationData data_;
  std::vector<TensorSpec> inputs_;
  std::vector<std::string> outputs_;       // the model's own
  std::map<std::string, int64_t> counts_;  // elements of the tensors that the quantizer names
  std::vector<std::string> notes_;
  std::optional<LoadedModel> exact_;  // the float network, once it is compiled
};

}  // namespace autotune
