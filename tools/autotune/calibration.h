// Runs a network and its quantized forms on samples of inputs, to find ranges and errors. Compiles them with default
// schedules. Not thread-safe.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "compiler/network.h"
#include "frontend/onnx/quantizer.h"
#include "tools/autotune/calibration_data.h"
#include "tools/autotune/runnable_model.h"

namespace autotune::tools {

struct CalibrationSetup {
  NetworkOptions network;
  Target target;
  Builder* builder = nullptr;
  int threads = 0;           // 0: one per CPU
  double percentile = 100;   // of the values that a range covers
  int64_t memory_bytes = 0;  // for the tensors that one run returns
};

// The error of a quantized network against the float one: ||y - y32|| / ||y32|| over all samples.
struct NetworkError {
  double error = 0;    // of the worst output
  std::string output;  // its name
};

class Calibration {
 public:
  // Opens the samples in `where` (CalibrationData). `quantizer` must outlive the object.
  static Result<Calibration> Open(const ModelQuantizer& quantizer, const std::string& where, CalibrationSetup setup);

  const CalibrationData& data() const { return data_; }
  const std::vector<std::string>& notes() const { return notes_; }  // of the import

  // Returns the ranges of the tensors that become u8. Runs the network several times if they do not fit memory at once.
  Result<std::map<std::string, ValueRange>> Ranges();
  // Returns the mean errors of the products. A product of few values gets none, since its mean would be that of the
  // samples only.
  Result<ModelQuantizer::MeanErrors> MeanErrors();
  Result<NetworkError> ErrorOf(const std::string& model);

 private:
  explicit Calibration(const ModelQuantizer& quantizer) : quantizer_(quantizer) {}
  Status Describe(const std::string& where);
  Result<RunnableModel> Compiled(const std::string& model, const std::vector<std::string>& extra_outputs) const;
  Status Run(const RunnableModel& network, int64_t sample);
  Status Observe(const std::vector<std::string>& names, std::map<std::string, RangeObserver>& observers);

  const ModelQuantizer& quantizer_;
  CalibrationSetup setup_;
  CalibrationData data_;
  std::vector<TensorSpec> inputs_;
  std::vector<std::string> outputs_;       // the model's own
  std::map<std::string, int64_t> counts_;  // elements of the tensors that the quantizer names
  std::vector<std::string> notes_;
  std::optional<RunnableModel> exact_;  // the float network, once it is compiled
};

}  // namespace autotune::tools
