// Reads the inputs on which a network is calibrated: samples in files, or random numbers. Not thread-safe.
#pragma once
#include <string>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/tensor.h"
#include "support/result.h"

namespace autotune {

class CalibrationData {
 public:
  // Lists and checks the samples in `where`: a folder, or "random". A folder, or each of its folders, has files
  // input_0.pb, …; or FILE.npz, each with an array for each input; or FILE.npy, for a network with one input; or
  // NAME.npy for each input. Arrays may hold several samples, one behind the other in the first dimension. `ignored`:
  // names of inputs of the model that the network does not have. `option`: the one that names `where`, for errors.
  static Result<CalibrationData> Open(const std::string& where, const std::vector<TensorSpec>& inputs,
                                      const std::vector<std::string>& ignored = {},
                                      const std::string& option = "--calibrate");

  bool is_random() const { return random_; }
  int64_t size() const { return static_cast<int64_t>(samples_.size()); }
  // Returns a tensor for each input.
  Result<std::vector<Tensor>> Sample(int64_t i);

 private:
  // The files of some samples: one for each input, or one .npz.
  struct Source {
    std::vector<std::string> files;
    int64_t samples = 1;
  };
  Result<std::vector<Source>> SourcesIn(const std::string& folder) const;
  Result<std::vector<Tensor>> Read(const Source& source) const;
  Status Check(Source& source) const;

  std::vector<TensorSpec> inputs_;
  std::vector<std::string> ignored_;
  bool random_ = false;
  std::vector<Source> sources_;
  std::vector<std::pair<size_t, int64_t>> samples_;  // source, and place in it
  int64_t read_ = -1;                                // the source whose tensors are read_tensors_
  std::vector<Tensor> read_tensors_;
};

}  // namespace autotune
