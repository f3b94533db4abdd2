// The error of a network whose numbers are rounded, against the same network of f32. Not thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor.h"

namespace autotune {

struct NetworkError {
  double error = 0;    // ||y - y32|| / ||y32|| over all samples, of the worst output
  std::string output;  // its name
  // The rows of the first output (along its last dimension) whose two largest numbers in f32 differ by more than a
  // quantum, 1/255 of the row's range; and those among them whose largest number is at the same place.
  int64_t judged = 0, same = 0;
  double Agreement() const { return judged > 0 ? static_cast<double>(same) / static_cast<double>(judged) : 1; }
};

// Adds the differences of the outputs over samples.
class ErrorSums {
 public:
  explicit ErrorSums(std::vector<std::string> outputs) : names_(std::move(outputs)), sums_(names_.size()) {}

  int64_t outputs() const { return static_cast<int64_t>(names_.size()); }
  // Adds one sample of output i. Both tensors have one shape; their types may differ.
  void Add(int64_t i, const Tensor& got, const Tensor& want);
  NetworkError Total() const;

 private:
  struct Squares {
    double difference = 0, exact = 0;
  };
  void AddRows(const std::vector<double>& got, const std::vector<double>& want, int64_t columns);

  std::vector<std::string> names_;
  std::vector<Squares> sums_;
  int64_t judged_ = 0, same_ = 0;
};

}  // namespace autotune
