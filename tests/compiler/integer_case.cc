#include "tests/compiler/integer_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "support/rng.h"
#include "tests/compiler/integer_product.h"

namespace autotune {
namespace {

using Longs = std::vector<int64_t>;
constexpr int kFloat = 1, kU8 = 2, kI8 = 3, kI32 = 6;  // ONNX's element types
constexpr double kRounding = 0x1p-24;                  // of f32, relative
constexpr double kWholes = 0x1p24;                     // f32 holds the integers up to it
constexpr double kTie = 1e-5;                          // least distance from a tie at which a rounding is certain

// A tensor of floats: its exact numbers, and bounds of their errors in f32.
struct Floats {
  std::string name;
  Longs shape;
  std::vector<double> exact, error;

  // Adds the rounding of an operation that was exact so far.
  void Round() {
    for (size_t i = 0; i < exact.size(); ++i) {
      const bool rounds = static_cast<double>(static_cast<float>(exact[i])) != exact[i];
      if (rounds || error[i] != 0) error[i] += kRounding * std::abs(exact[i]);
    }
  }
};

int OnnxType(const SmallTensor& b) { return b.is_signed ? kI8 : kU8; }

class CaseMaker {
 public:
  explicit CaseMaker(uint64_t number) : rng_(number * 7919 + 3), powers_(rng_.Below(2)) {}

  IntegerCase Make() {
    switch (rng_.Below(10)) {
      case 0:
      case 1:
        MatMulInteger();
        break;
      case 2:
      case 3:
        ConvInteger();
        break;
      case 4:
        QLinearMatMul();
        break;
      case 5:
      case 6:
        QLinearConv();
        break;
      case 7:
        Residual();
        break;
      case 8:
        TwoLayers();
        break;
      default:
        FromFloats();
    }
    case_.text += powers_ ? ", scales are powers of two" : "";
    case_.model = model_;
    return case_;
  }

 private:
  std::string NewName(const char* kind) { return kind + std::to_string(names_++); }

  template <class T>
  std::string Add(const char* kind, const Longs& shape, const std::vector<T>& numbers, int type, bool is_input) {
    const std::string name = NewName(kind);
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
    if (!is_input) {
      model_.Bytes8(name, shape, {bytes.begin(), bytes.end()}, type);
      return name;
    }
    model_.Input(name, shape, type);
    const uint8_t code = type == kFloat ? kDLFloat : type == kU8 ? kDLUInt : kDLInt;
    case_.inputs.push_back(Tensor::FromBytes(shape, {code, 8 * sizeof(T), 1}, bytes).value());
    return name;
  }
  std::string AddBytes(const char* kind, const Longs& shape, const std::vector<int32_t>& numbers, int type,
                       bool is_input) {
    return Add(kind, shape, std::vector<uint8_t>(numbers.begin(), numbers.end()), type, is_input);
  }
  // Adds the zero points; "" if there are none.
  std::string AddZeros(const char* kind, const SmallTensor& b, bool is_input) {
    if (b.zeros.empty()) return "";
    const auto count = static_cast<int64_t>(b.zeros.size());
    return AddBytes(kind, count == 1 ? Longs() : Longs{count}, b.zeros, OnnxType(b), is_input);
  }
  std::string AddFloats(const char* kind, const std::vector<float>& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return Add(kind, count == 1 ? Longs() : Longs{count}, numbers, kFloat, false);
  }
  bool OneIn(int64_t count) { return rng_.Below(count) == 0; }

  // Draws a scale of about this size: a power of two if all scales of the case are.
  float Scale(double size) {
    if (powers_) return static_cast<float>(std::exp2(std::round(std::log2(size))));
    return static_cast<float>(size * (0.7 + 0.6 * rng_.Uniform()));
  }
  std::vector<float> Scales(double size, int64_t columns) {
    std::vector<float> scales(static_cast<size_t>(rng_.Below(2) ? columns : 1));
    for (float& scale : scales) scale = Scale(size * std::exp2(rng_.Below(3)));
    return scales;
  }

  // Draws a scale for which the numbers fill the range of 8 bits, or exceed it.
  float ScaleFor(const Floats& y) {
    double sum = 0;
    for (double number : y.exact) sum += number * number;
    const double deviation = std::sqrt(sum / static_cast<double>(y.exact.size()));
    return Scale(deviation > 0 ? deviation / std::exp2(4 + static_cast<double>(rng_.Below(3))) : 1);
  }

  void Attributes(NodeMaker node, const IntegerProduct& p) {
    if (!p.convolves) return;
    node.Int("group", p.groups).Ints("strides", p.strides).Ints("dilations", p.dilations).Ints("pads", p.pads);
  }

  void ResultIsI32(const IntegerProduct& p) {
    case_.exact.assign(p.sums.begin(), p.sums.end());
    case_.error.assign(p.sums.size(), 0);
    case_.low = INT32_MIN, case_.high = INT32_MAX;
  }

  void MatMulInteger() {
    const IntegerProduct p = DrawMatrixProduct(rng_, {.row_zeros = true});
    IntegerOperator("MatMulInteger", p);
  }
  void ConvInteger() { IntegerOperator("ConvInteger", DrawConvolution(rng_, nullptr)); }

  void IntegerOperator(const char* op, const IntegerProduct& p) {
    case_.text = std::string(op) + " " + p.Text();
    const std::string x = AddBytes("x", p.x.shape, p.x.numbers, OnnxType(p.x), true);
    const std::string w = AddBytes("w", p.w.shape, p.w.numbers, OnnxType(p.w), OneIn(6));
    const std::string x_zero = AddZeros("xz", p.x, OneIn(3)), w_zero = AddZeros("wz", p.w, OneIn(6));
    std::vector<std::string> inputs = {x, w, x_zero, w_zero};
    while (inputs.back().empty()) inputs.pop_back();
    Attributes(model_.Output("y").Node(op, inputs, {"y"}), p);
    ResultIsI32(p);
  }

  // Returns the sums times scales, as operators of integers compute them: with exact sums.
  Floats Scaled(const IntegerProduct& p, float x_scale, const std::vector<float>& w_scales,
                const std::vector<int32_t>& bias = {}) {
    Floats y{"", p.shape, {}, {}};
    for (size_t i = 0; i < p.sums.size(); ++i) {
      const auto column = static_cast<size_t>(p.ColumnOf(i));
      const auto sum = static_cast<double>(p.sums[i] + (bias.empty() ? 0 : bias[column]));
      y.exact.push_back(sum * x_scale * w_scales[w_scales.size() == 1 ? 0 : column]);
      y.error.push_back(powers_ && std::abs(sum) <= kWholes ? 0 : 3 * kRounding * std::abs(y.exact.back()));
    }
    return y;
  }

  // The output is the numbers, divided by the scale and rounded, plus a zero point.
  void ResultIsQuantized(const Floats& y, float scale, const SmallTensor& to) {
    case_.exact = y.exact, case_.error = y.error;
    for (size_t i = 0; i < y.exact.size(); ++i) {
      case_.exact[i] /= scale, case_.error[i] /= scale;
      if (case_.error[i] == 0 && powers_) continue;
      case_.error[i] = std::max(kTie, case_.error[i] + kRounding * std::abs(case_.exact[i]));
    }
    case_.zero = to.zeros.empty() ? 0 : to.zeros[0];
    case_.low = to.low(), case_.high = to.high();
  }

  SmallTensor DrawResult() {
    SmallTensor to;
    to.is_signed = rng_.Below(2);
    if (rng_.Below(5)) to.zeros = {static_cast<int32_t>(OneIn(3) ? to.low() : to.low() + rng_.Below(256))};
    return to;
  }

  // A zero point that the operators of integers must have.
  static void NeedZero(SmallTensor& b) {
    if (b.zeros.empty()) b.zeros = {0};
  }

  void QLinearMatMul() {
    IntegerProduct p = DrawMatrixProduct(rng_, {});
    NeedZero(p.x), NeedZero(p.w);
    case_.text = "QLinearMatMul " + p.Text();
    const float x_scale = Scale(0.02);
    std::vector<float> w_scales = Scales(0.01, p.Columns());
    if (w_scales.size() != p.w.zeros.size()) w_scales.resize(1), p.w.zeros.resize(1);
    Recompute(p);
    QLinear("QLinearMatMul", p, x_scale, w_scales, {});
  }

  static void Recompute(IntegerProduct& p) {
    p.shape.clear(), p.sums.clear(), p.magnitudes.clear();
    p.Compute();
  }

  void QLinearConv() {
    IntegerProduct p = DrawConvolution(rng_, nullptr);
    NeedZero(p.x), NeedZero(p.w);
    case_.text = "QLinearConv " + p.Text();
    const float x_scale = Scale(0.02);
    std::vector<float> w_scales = Scales(0.01, p.Columns());
    if (w_scales.size() != p.w.zeros.size()) w_scales.resize(1), p.w.zeros.resize(1);
    Recompute(p);
    std::vector<int32_t> bias(static_cast<size_t>(rng_.Below(2) ? p.Columns() : 0));
    for (int32_t& number : bias) number = static_cast<int32_t>(rng_.Below(20000)) - 10000;
    QLinear("QLinearConv", p, x_scale, w_scales, bias);
  }

  void QLinear(const char* op, const IntegerProduct& p, float x_scale, const std::vector<float>& w_scales,
               const std::vector<int32_t>& bias) {
    const Floats y = Scaled(p, x_scale, w_scales, bias);
    SmallTensor to = DrawResult();
    NeedZero(to);
    const float scale = ScaleFor(y);
    std::vector<std::string> inputs = {AddBytes("x", p.x.shape, p.x.numbers, OnnxType(p.x), true),
                                       AddFloats("xs", {x_scale}),
                                       AddZeros("xz", p.x, OneIn(4)),
                                       AddBytes("w", p.w.shape, p.w.numbers, OnnxType(p.w), OneIn(8)),
                                       AddFloats("ws", w_scales),
                                       AddZeros("wz", p.w, false),
                                       AddFloats("ys", {scale}),
                                       AddZeros("yz", to, false)};
    if (!bias.empty()) inputs.push_back(Add("b", {p.Columns()}, bias, kI32, false));
    Attributes(model_.Output("y").Node(op, inputs, {"y"}), p);
    ResultIsQuantized(y, scale, to);
  }

  // Returns the name of dequantized numbers.
  std::string Dequantized(const std::string& bytes, const SmallTensor& b, const std::vector<float>& scales,
                          int64_t axis, bool zero_is_input) {
    SmallTensor zeros = b;
    if (scales.size() > 1 && b.zeros.size() == 1) zeros.zeros.resize(scales.size(), b.zeros[0]);
    std::vector<std::string> inputs = {bytes, AddFloats("s", scales), AddZeros("z", zeros, zero_is_input)};
    if (inputs.back().empty()) inputs.pop_back();
    const std::string name = NewName("d");
    model_.Node("DequantizeLinear", inputs, {name}).Int("axis", axis);
    return name;
  }

  // Returns the product of dequantized numbers; `x` is the name of the data.
  Floats Product(IntegerProduct& p, const std::string& x, float x_scale) {
    case_.of_floats = true;
    case_.text += (case_.text.empty() ? "QDQ " : "; ") + p.Text();
    std::vector<float> w_scales = Scales(0.01, p.Columns());
    if (p.w.zeros.size() > 1 && w_scales.size() == 1) p.w.zeros.resize(1), Recompute(p);
    const std::string data = Dequantized(x, p.x, {x_scale}, 1, OneIn(4));
    const std::string w = AddBytes("w", p.w.shape, p.w.numbers, OnnxType(p.w), OneIn(4));
    const std::string weights = Dequantized(
        w, p.w, w_scales, p.convolves || p.transposed ? 0 : static_cast<int64_t>(p.w.shape.size()) - 1, false);
    Floats y = Scaled(p, x_scale, w_scales);
    y.name = NewName("p");
    for (size_t i = 0; i < y.exact.size(); ++i) {
      const auto magnitude = static_cast<double>(p.magnitudes[i]);
      const double scale = x_scale * w_scales[w_scales.size() == 1 ? 0 : static_cast<size_t>(p.ColumnOf(i))];
      const bool exact = powers_ && magnitude <= kWholes;
      y.error[i] = exact ? 0 : kRounding * static_cast<double>(p.Terms() + 3) * magnitude * scale;
    }
    std::vector<std::string> inputs = {data, weights};
    const bool gemm = !p.convolves && p.x.shape.size() == 2 && (p.transposed || rng_.Below(2));
    if ((gemm || p.convolves) && rng_.Below(2)) {
      std::vector<float> bias;
      for (int64_t i = 0; i < p.Columns(); ++i)
        bias.push_back(static_cast<float>(rng_.Below(4000) - 2000) * x_scale * w_scales[w_scales.size() == 1 ? 0 : i]);
      inputs.push_back(Add("b", {p.Columns()}, bias, kFloat, false));
      for (size_t i = 0; i < y.exact.size(); ++i) y.exact[i] += bias[static_cast<size_t>(p.ColumnOf(i))];
      y.Round();
    }
    const NodeMaker node = model_.Node(p.convolves ? "Conv" : gemm ? "Gemm" : "MatMul", inputs, {y.name});
    Attributes(node, p);
    if (gemm) NodeMaker(node).Int("transB", p.transposed);
    return y;
  }

  // Returns y, or y after a Relu, a Clip or a sum with a number.
  Floats After(Floats y) {
    const std::string name = NewName("f");
    double low = -INFINITY, high = INFINITY;
    switch (rng_.Below(4)) {
      case 0:
        model_.Node("Relu", {y.name}, {name});
        low = 0;
        break;
      case 1:
        low = -0.5, high = 6;
        model_.Node("Clip", {y.name, AddFloats("low", {-0.5F}), AddFloats("high", {6})}, {name});
        break;
      case 2:
        model_.Node("Add", {y.name, AddFloats("a", {0.375F})}, {name});
        for (double& number : y.exact) number += 0.375;
        y.Round();
        break;
      default:
        return y;
    }
    for (double& number : y.exact) number = std::clamp(number, low, high);
    y.name = name;
    return y;
  }

  void Quantize(const Floats& y) {
    const SmallTensor to = DrawResult();
    const float scale = ScaleFor(y);
    std::vector<std::string> inputs = {y.name, AddFloats("ys", {scale}), AddZeros("yz", to, false)};
    if (inputs.back().empty()) inputs.pop_back();
    model_.Output("y").Node("QuantizeLinear", inputs, {"y"});
    SmallTensor type = to;
    if (to.zeros.empty()) type.is_signed = false;
    ResultIsQuantized(y, scale, type);
  }

  IntegerProduct Draw(const SmallTensor* data = nullptr) {
    if (data && data->shape.size() > 2) return DrawConvolution(rng_, data);
    if (!data && OneIn(2)) return DrawConvolution(rng_, nullptr);
    const bool transposes = OneIn(2);
    return DrawMatrixProduct(rng_, {.batched = !transposes, .transposable = transposes});
  }

  // Two products of the same shape; their sum is quantized.
  void Residual() {
    IntegerProduct a = Draw();
    if (a.transposed && a.x.shape.size() > 2) return FromFloats();
    IntegerProduct b = a;
    std::reverse(b.x.numbers.begin(), b.x.numbers.end());
    std::reverse(b.w.numbers.begin(), b.w.numbers.end());
    Recompute(b);
    Floats sum;
    std::vector<Floats> parts;
    for (IntegerProduct* p : {&a, &b}) {
      const std::string x = AddBytes("x", p->x.shape, p->x.numbers, OnnxType(p->x), true);
      parts.push_back(Product(*p, x, Scale(0.02)));
    }
    sum = parts[0];
    sum.name = NewName("sum");
    model_.Node("Add", {parts[0].name, parts[1].name}, {sum.name});
    for (size_t i = 0; i < sum.exact.size(); ++i) sum.exact[i] += parts[1].exact[i], sum.error[i] += parts[1].error[i];
    sum.Round();
    case_.text = "sum of " + case_.text;
    Quantize(After(sum));
  }

  // The data is quantized here: floats that lie on whole numbers or, if scales are powers of two, on ties.
  void FromFloats() {
    IntegerProduct p = Draw();
    const float x_scale = Scale(0.02);
    std::vector<float> floats;
    const int32_t zero = p.x.zeros.empty() ? 0 : p.x.zeros[0];
    if (p.x.zeros.empty()) p.x.is_signed = false;
    for (int32_t& number : p.x.numbers) {
      number = std::clamp(number, p.x.low(), p.x.high());
      double beside = powers_ && OneIn(3) ? 0.5 : 0;
      if ((number - zero) % 2 != 0) beside = 0;  // a tie is rounded to the even number
      if (number > p.x.low() && OneIn(2)) beside = -beside;
      floats.push_back(static_cast<float>((number - zero + beside) * x_scale));
    }
    Recompute(p);
    const std::string name = NewName("q");
    std::vector<std::string> inputs = {Add("x", p.x.shape, floats, kFloat, true), AddFloats("s", {x_scale}),
                                       AddZeros("z", p.x, false)};
    if (inputs.back().empty()) inputs.pop_back();
    model_.Node("QuantizeLinear", inputs, {name});
    const Floats y = Product(p, name, x_scale);
    case_.text = "of floats, " + case_.text;
    Quantize(After(y));
  }

  // A convolution of a quantized convolution.
  void TwoLayers() {
    powers_ = true;
    IntegerProduct first = DrawConvolution(rng_, nullptr);
    const std::string x = AddBytes("x", first.x.shape, first.x.numbers, OnnxType(first.x), true);
    const Floats y = After(Product(first, x, Scale(0.02)));
    const bool certain = std::ranges::all_of(y.error, [](double error) { return error == 0; });
    if (!certain || y.exact.size() > 20000) return Quantize(y);
    SmallTensor middle = DrawResult();
    if (middle.zeros.empty()) middle.is_signed = false;
    const float scale = ScaleFor(y);
    middle.shape = y.shape;
    for (double number : y.exact) {
      const double whole = std::nearbyint(number / scale) + (middle.zeros.empty() ? 0 : middle.zeros[0]);
      middle.numbers.push_back(static_cast<int32_t>(std::clamp<double>(whole, middle.low(), middle.high())));
    }
    const std::string name = NewName("q");
    std::vector<std::string> inputs = {y.name, AddFloats("s", {scale}), AddZeros("z", middle, false)};
    if (inputs.back().empty()) inputs.pop_back();
    model_.Node("QuantizeLinear", inputs, {name});
    IntegerProduct second = DrawConvolution(rng_, &middle);
    case_.text = "two layers, " + case_.text;
    Quantize(After(Product(second, name, scale)));
  }

  Rng rng_;
  bool powers_;  // whether all scales are powers of two, so that f32 computes most numbers exactly
  int names_ = 0;
  ModelMaker model_;
  IntegerCase case_;
};

template <class T>
double Element(const Tensor& t, int64_t i) {
  return static_cast<double>(t.Data<T>()[i]);
}

double NumberOf(const Tensor& t, int64_t i) {
  if (t.dtype().bits == 32) return Element<int32_t>(t, i);
  return t.dtype().code == kDLUInt ? Element<uint8_t>(t, i) : Element<int8_t>(t, i);
}

}  // namespace

IntegerCase MakeIntegerCase(uint64_t number) { return CaseMaker(number).Make(); }

Judgement Judge(const IntegerCase& expected, const Tensor& output) {
  Judgement judgement{output.num_elements(), 0, ""};
  if (static_cast<size_t>(output.num_elements()) != expected.exact.size()) {
    judgement.wrong = std::to_string(output.num_elements()) + " elements, not " + std::to_string(expected.exact.size());
    return judgement;
  }
  for (int64_t i = 0; i < output.num_elements(); ++i) {
    const double exact = expected.exact[static_cast<size_t>(i)], error = expected.error[static_cast<size_t>(i)];
    const double got = NumberOf(output, i);
    const auto rounded = [&](double x) {
      return std::clamp(std::nearbyint(x) + expected.zero, expected.low, expected.high);
    };
    if (got == rounded(exact)) continue;
    if (error > 0 && (got == rounded(exact - error) || got == rounded(exact + error))) {
      judgement.ties += 1;
      continue;
    }
    judgement.wrong =
        "element " + std::to_string(i) + " is " + std::to_string(got) + ", not " + std::to_string(rounded(exact));
    break;
  }
  return judgement;
}

}  // namespace autotune
