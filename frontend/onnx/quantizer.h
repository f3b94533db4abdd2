// ModelQuantizer writes a copy of an ONNX model whose products have integer weights, in the form QDQ (QuantizeLinear
// and DequantizeLinear around float operators). It runs nothing: the caller runs the float model to find the ranges of
// activations, and the probe model to find the mean errors of products. Not thread-safe.
//
// kInt8: weights of Conv, Gemm and MatMul are i8 with a scale for each output channel, their data u8 with one scale and
// zero point, biases i32. Between convolutions, the operands of Add, Concat and pools are u8, too. A BatchNormalization
// behind a convolution becomes part of its weights.
// kWeights4: weights of Gemm and MatMul are int4 in blocks of 32 terms of a sum, with a scale for each; operator
// set 21.
//
// With kInt8, each product may also stay f32, or get operands of bf16: bf16 weights, and data that are cast to bf16 and
// back. So one model states the precision of each of its products.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/value_range.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

enum class QuantizedForm { kInt8, kWeights4 };

// The type to which the operands of a product are rounded.
enum class Precision { kF32, kBf16, kInt8 };
AUTOTUNE_ENUM(Precision, "f32", "bf16", "int8")

class ModelQuantizer {
 public:
  // A product that becomes one of integers.
  struct Product {
    std::string op, node;  // node: "node 'conv1'"
    std::string name;      // of its node in the models below; no other product has it
    std::string data;      // the operand that is no constant
    std::string result;    // the tensor that it computes
    int64_t channels = 0;  // of the result
  };
  // Operators that stay in float for the same reason.
  struct FloatOperators {
    std::string op, reason;
    std::vector<std::string> nodes;  // "node 'conv1'"
  };
  // The mean errors of a product's channels, by product; empty: not known.
  using MeanErrors = std::vector<std::vector<float>>;

  // Errors: those of ReadOnnxModel; the model is quantized already, has an operator set below 13 or more than 2 GiB, or
  // none of its products can be quantized.
  static Result<ModelQuantizer> Read(const std::string& path, QuantizedForm form);
  // `folder` holds the model's external data; empty: there is none.
  static Result<ModelQuantizer> FromBytes(std::string_view bytes, const std::string& source, const std::string& folder,
                                          QuantizedForm form);
  ModelQuantizer(ModelQuantizer&&) noexcept;
  ~ModelQuantizer();

  const std::vector<Product>& products() const;
  const std::vector<FloatOperators>& left_in_float() const;
  // Returns the tensors of the model whose ranges must be known; none for kWeights4.
  std::vector<std::string> Activations() const;
  // Returns the model itself, with external data in it.
  const std::string& FloatModel() const;

  // Must be called before the functions below with a range for each of Activations().
  void SetRanges(std::map<std::string, ValueRange> ranges);

  // The float model with further outputs, parallel to products(): the mean error of each channel of a product if only
  // its own operands are quantized.
  struct Probes {
    std::string model;
    std::vector<std::string> outputs;  // names
  };
  Result<Probes> ProbeModel() const;

  // The float model with two further inputs for each product, parallel to products(): numbers of f32. If `int8` is 1
  // and all others are 0, the network computes what it would if this product alone had operands of 8 bits. `bf16`
  // likewise.
  struct Switches {
    std::string int8, bf16;  // names of inputs
  };
  struct Switched {
    std::string model;
    std::vector<Switches> switches;
  };
  Result<Switched> SwitchedModel() const;

  // Returns the model in which each product has its precision, parallel to products(). `errors` as below, for those of
  // 8 bits.
  Result<std::string> MixedModel(const std::vector<Precision>& precisions, const MeanErrors& errors = {}) const;

  // Returns the quantized model. Subtracts the mean errors, if they are known, from the biases of the products. A
  // product without a bias gets one.
  Result<std::string> QuantizedModel(const MeanErrors& errors = {}) const;

 private:
  struct Parts;
  explicit ModelQuantizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace autotune
