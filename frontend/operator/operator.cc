#include "frontend/operator/operator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "ir/float_math.h"
#include "support/edit_distance.h"
#include "support/hint.h"
#include "support/integer.h"
#include "support/join.h"
#include "support/rng.h"

namespace autotune {
namespace {

using graph::GraphBuilder;
using graph::Op;
using graph::Shape;
using graph::TensorSpec;
using graph::ValueId;

constexpr int64_t kMaxConstantBytes = int64_t{4} << 30;  // limit of one constant, in case an extent is mistyped
constexpr int64_t kMostInteger = std::numeric_limits<int32_t>::max();
constexpr double kEpsilon = 1e-5;  // ONNX's default for LayerNormalization

// An operator's text, split into its parts.
struct Written {
  std::vector<Shape> shapes;
  std::map<std::string, std::string, std::less<>> options;
  DType dtype = DType::Float(32);
  DType second = dtype;  // of a product's second operand, if both have 8 bits; else as dtype
};

// Builds an operator's graph. ParseWritten has checked that every shape has the rank that the form demands.
class Maker {
 public:
  explicit Maker(const Written& written) : written_(written) {}

  const Shape& shape(size_t i) const { return written_.shapes[i]; }
  int rank() const { return static_cast<int>(shape(0).size()); }
  bool Has(std::string_view option) const { return written_.options.find(option) != written_.options.end(); }

  Result<ValueId> Input(const char* name, Shape shape) { return Computed(TRY(Factor(name, std::move(shape)))); }
  // Adds an input that a product reads. 16-bit floats are not converted to f32, since products read them directly.
  Result<ValueId> Factor(const char* name, Shape shape, bool is_second = false) {
    TensorSpec spec{is_second ? written_.second : written_.dtype, std::move(shape)};
    TRY(graph::CheckSize(spec));
    return builder_.Input(name, std::move(spec));
  }
  // Adds a constant with uniform random values in [-1, 1), or all values of an integer of 8 bits, the same on every
  // machine.
  Result<ValueId> Weight(const char* name, Shape shape) {
    TensorSpec spec{written_.second, std::move(shape)};
    TRY(graph::CheckSize(spec));
    if (spec.Bytes() > kMaxConstantBytes)
      return Err("weights ", spec.Text(), " take more than ", kMaxConstantBytes >> 30, " GiB");
    char* bytes = nullptr;
    graph::TensorValue value{spec, graph::SharedBytes::Allocate(static_cast<size_t>(spec.Bytes()), &bytes)};
    Rng rng(0);
    for (int64_t i = 0; i < spec.NumElements(); ++i) {
      if (IsBytes()) {
        bytes[i] = static_cast<char>(rng.Next());
        continue;
      }
      double number = 2 * rng.Uniform() - 1;
      const uint64_t bits = FloatToBits(RoundFloat(number, spec.dtype), spec.dtype);  // the machine is little-endian
      std::memcpy(bytes + i * spec.dtype.Bytes(), &bits, static_cast<size_t>(spec.dtype.Bytes()));
    }
    return Computed(builder_.AddConstant(name, std::move(value)));
  }
  ValueId Number(double value) {
    return builder_.AddConstant("", graph::TensorValue::FromNumbers(ComputedType(), {}, {value}));
  }
  Result<ValueId> Add(Op op, std::vector<ValueId> inputs, graph::Attrs attrs = {}) {
    return builder_.Add(op, std::move(inputs), std::move(attrs));
  }

  // Returns the integers of an option, each at least `least`, or `otherwise` if the option is not given. `sizes` lists
  // the allowed counts of integers; empty: any.
  Result<std::vector<int64_t>> Integers(std::string_view option, int64_t least, std::vector<int64_t> otherwise,
                                        std::span<const size_t> sizes = {}) const;
  // Reads stride or dilation: one number for both dimensions, or two.
  Result<std::vector<int64_t>> Pair(std::string_view option) const;
  // Reads pad: one number for all sides, two for height and width, or four: top, left, bottom, right.
  Result<std::vector<int64_t>> Pads() const;
  // Converts an axis to a non-negative one; negative axes count from the back.
  Result<int64_t> Axis(std::string_view option, int64_t axis) const;

  bool IsBytes() const { return written_.dtype.bits == 8; }

  Result<graph::Graph> Finish(ValueId output) {
    if (written_.dtype.IsHalf()) output = TRY(Add(Op::kCast, {output}, graph::CastAttrs{written_.dtype}));
    builder_.Output(output, "y");
    return builder_.Finish();
  }

 private:
  // Floats of 16 bits are stored as such and computed in 32 bits, as in imported networks.
  DType ComputedType() const { return written_.dtype.IsHalf() ? DType::Float(32) : written_.dtype; }
  Result<ValueId> Computed(ValueId stored) {
    if (!written_.dtype.IsHalf()) return stored;
    return Add(Op::kCast, {stored}, graph::CastAttrs{ComputedType()});
  }

  const Written& written_;
  GraphBuilder builder_;
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

Result<std::vector<int64_t>> Maker::Integers(std::string_view option, int64_t least, std::vector<int64_t> otherwise,
                                             std::span<const size_t> sizes) const {
  auto found = written_.options.find(option);
  if (found == written_.options.end()) return otherwise;
  std::vector<int64_t> integers;
  for (std::string_view item : Split(found->second, ',')) {
    std::optional<int64_t> integer = ParseInteger(item);
    if (!integer || *integer < least || *integer > kMostInteger)
      return Err(option, "=", found->second, ": '", item, "' is no whole number from ", least, " to ", kMostInteger);
    integers.push_back(*integer);
  }
  if (sizes.empty() || std::find(sizes.begin(), sizes.end(), integers.size()) != sizes.end()) return integers;
  std::string expected;
  for (size_t size : sizes)
    expected += (expected.empty() ? "" : size == sizes.back() ? " or " : ", ") + std::to_string(size);
  return Err(option, "=", found->second, " has ", integers.size(), " numbers; ", expected, " are expected");
}

Result<std::vector<int64_t>> Maker::Pair(std::string_view option) const {
  static constexpr size_t kSizes[] = {1, 2};
  std::vector<int64_t> pair = TRY(Integers(option, 1, {1}, kSizes));
  if (pair.size() == 1) pair.push_back(pair[0]);
  return pair;
}

Result<std::vector<int64_t>> Maker::Pads() const {
  static constexpr size_t kSizes[] = {1, 2, 4};
  std::vector<int64_t> pads = TRY(Integers("pad", 0, {0}, kSizes));
  if (pads.size() == 1) pads.push_back(pads[0]);
  if (pads.size() == 2) pads.insert(pads.end(), {pads[0], pads[1]});
  return pads;
}

Result<int64_t> Maker::Axis(std::string_view option, int64_t axis) const {
  if (axis < -rank() || axis >= rank()) return Err(option, "=", axis, " is no axis of ", graph::ShapeText(shape(0)));
  return axis < 0 ? axis + rank() : axis;
}

Result<ValueId> MakeMatmul(Maker& m) {
  const Shape& s = m.shape(0);
  ValueId a = TRY(m.Factor("a", {s[0], s[1]})), b = TRY(m.Factor("b", {s[1], s[2]}, true));
  return m.Add(Op::kMatmul, {a, b});
}

Result<ValueId> MakeDense(Maker& m) {
  const Shape& s = m.shape(0);
  ValueId x = TRY(m.Input("x", {s[0], s[1]})), w = TRY(m.Weight("weights", {s[1], s[2]}));
  return m.Add(Op::kMatmul, {x, w});
}

Result<ValueId> MakeBatchMatmul(Maker& m) {
  const Shape& s = m.shape(0);
  ValueId a = TRY(m.Factor("a", {s[0], s[1], s[2]})), b = TRY(m.Factor("b", {s[0], s[2], s[3]}, true));
  return m.Add(Op::kBatchMatmul, {a, b});
}

Result<ValueId> AddConv(Maker& m, const Shape& weight, int64_t groups) {
  graph::ConvAttrs attrs{.groups = groups, .layout = graph::Layout::kNHWC};
  attrs.strides = TRY(m.Pair("stride"));
  attrs.pads = TRY(m.Pads());
  attrs.dilations = TRY(m.Pair("dilation"));
  ValueId x = TRY(m.Input("x", m.shape(0))), w = TRY(m.Weight("weights", weight));
  return m.Add(Op::kConv2d, {x, w}, std::move(attrs));
}

Result<ValueId> MakeConv(Maker& m) {
  static constexpr size_t kOne[] = {1};
  return AddConv(m, m.shape(1), TRY(m.Integers("groups", 1, {1}, kOne))[0]);
}

Result<ValueId> MakeDepthwise(Maker& m) {
  int64_t channels = m.shape(0)[3];
  return AddConv(m, {m.shape(1)[0], m.shape(1)[1], 1, channels}, channels);
}

Result<ValueId> MakeSoftmax(Maker& m) {
  static constexpr size_t kOne[] = {1};
  int64_t axis = TRY(m.Axis("axis", TRY(m.Integers("axis", -m.rank(), {-1}, kOne))[0]));
  ValueId x = TRY(m.Input("x", m.shape(0)));
  return m.Add(Op::kSoftmax, {x}, graph::AxisAttrs{axis});
}

// Adds the mean over the last axis.
Result<ValueId> AddMean(Maker& m, ValueId v) {
  ValueId sum = TRY(m.Add(Op::kReduceSum, {v}, graph::AxesAttrs{{m.rank() - 1}}));
  return m.Add(Op::kMul, {sum, m.Number(1.0 / static_cast<double>(m.shape(0).back()))});
}

// Builds the nodes that the ONNX importer builds for LayerNormalization over the last axis.
Result<ValueId> MakeLayerNorm(Maker& m) {
  ValueId x = TRY(m.Input("x", m.shape(0))), mean = TRY(AddMean(m, x));
  ValueId centered = TRY(m.Add(Op::kSub, {x, mean}));
  ValueId squares = TRY(m.Add(Op::kMul, {centered, centered})), variance = TRY(AddMean(m, squares));
  ValueId shifted = TRY(m.Add(Op::kAdd, {variance, m.Number(kEpsilon)}));
  ValueId deviation = TRY(m.Add(Op::kSqrt, {shifted}));
  ValueId inverse = TRY(m.Add(Op::kDiv, {m.Number(1), deviation}));
  ValueId normal = TRY(m.Add(Op::kMul, {centered, inverse}));
  ValueId scale = TRY(m.Weight("scale", {m.shape(0).back()})), bias = TRY(m.Weight("bias", {m.shape(0).back()}));
  ValueId scaled = TRY(m.Add(Op::kMul, {normal, scale}));
  return m.Add(Op::kAdd, {scaled, bias});
}

template <Op op>
Result<ValueId> MakeReduce(Maker& m) {
  std::vector<int64_t> axes = TRY(m.Integers("axes", -m.rank(), {-1}));
  for (int64_t& axis : axes) axis = TRY(m.Axis("axes", axis));
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  ValueId x = TRY(m.Input("x", m.shape(0)));
  return m.Add(op, {x}, graph::AxesAttrs{axes});
}

struct Form {
  std::string name;
  std::vector<std::string> shapes;   // "N,H,W,C": names of the extents; "shape": any rank
  std::vector<std::string> options;  // names of the options other than dtype
  Result<ValueId> (*make)(Maker&);
};

const std::vector<Form>& Forms() {
  static const std::vector<Form> forms = {
      {"matmul", {"M,K,N"}, {}, MakeMatmul},
      {"batch_matmul", {"B,M,K,N"}, {}, MakeBatchMatmul},
      {"dense", {"M,K,N"}, {}, MakeDense},
      {"conv2d", {"N,H,W,C", "KH,KW,C/groups,O"}, {"stride", "pad", "dilation", "groups"}, MakeConv},
      {"depthwise_conv2d", {"N,H,W,C", "KH,KW"}, {"stride", "pad", "dilation"}, MakeDepthwise},
      {"softmax", {"shape"}, {"axis"}, MakeSoftmax},
      {"layer_norm", {"shape"}, {}, MakeLayerNorm},
      {"reduce_sum", {"shape"}, {"axes"}, MakeReduce<Op::kReduceSum>},
      {"reduce_max", {"shape"}, {"axes"}, MakeReduce<Op::kReduceMax>},
      {"reduce_min", {"shape"}, {"axes"}, MakeReduce<Op::kReduceMin>},
      {"reduce_prod", {"shape"}, {"axes"}, MakeReduce<Op::kReduceProd>},
  };
  return forms;
}

// Adds the hint "did you mean conv2d?", or the list of known words if none is near.
Error WithKnown(Error error, std::string_view word, const std::vector<std::string>& known) {
  return NearWords(word, known).empty() ? WithHint(std::move(error), "known are " + Joined(known))
                                        : WithSuggestion(std::move(error), word, known);
}

Result<const Form*> FindForm(std::string_view name) {
  std::vector<std::string> names;
  for (const Form& form : Forms()) {
    if (form.name == name) return &form;
    names.push_back(form.name);
  }
  return WithKnown(Err("unknown operator '", name, "'"), name, names);
}

Result<Shape> ParseShape(std::string_view text) {
  Shape shape;
  for (std::string_view item : Split(text, ',')) {
    std::optional<int64_t> extent = ParseInteger(item);
    if (!extent || *extent < 1 || *extent > kMostInteger)
      return Err("'", item, "' in ", text, " is no extent, a whole number from 1 to ", kMostInteger);
    shape.push_back(*extent);
  }
  return shape;
}

Status ParseOption(const Form& form, std::string_view part, Written& written) {
  size_t equals = part.find('=');
  std::string name(part.substr(0, equals)), value(part.substr(equals + 1));
  std::vector<std::string> known = form.options;
  known.push_back("dtype");
  if (std::find(known.begin(), known.end(), name) == known.end())
    return WithKnown(Err(form.name, " has no option '", name, "'"), name, known);
  if (!written.options.emplace(name, value).second) return Err(name, " is given twice");
  if (name != "dtype") return {};
  const DType u8 = DType::UInt(8), s8 = DType::Int(8);
  const std::map<std::string, std::pair<DType, DType>> kBytes = {
      {"u8s8", {u8, s8}}, {"s8s8", {s8, s8}}, {"u8u8", {u8, u8}}};
  if (const auto bytes = kBytes.find(value); bytes != kBytes.end()) {
    static constexpr std::string_view kProducts[] = {"matmul", "batch_matmul", "dense", "conv2d", "depthwise_conv2d"};
    if (std::ranges::find(kProducts, form.name) == std::end(kProducts))
      return Err("dtype=", value, " is for products: ", Joined(kProducts));
    std::tie(written.dtype, written.second) = bytes->second;
    return {};
  }
  if (value != "f32" && value != "f64" && value != "f16" && value != "bf16")
    return Err("dtype=", value, " is none of f32, f64, f16, bf16, u8s8, s8s8 and u8u8");
  written.dtype = written.second = *DType::Parse(value);
  return {};
}

Result<Written> ParseWritten(const Form& form, std::string_view rest) {
  Written written;
  for (std::string_view part : rest.empty() ? std::vector<std::string_view>() : Split(rest, ';')) {
    if (part.find('=') != std::string_view::npos) {
      TRY(ParseOption(form, part, written));
    } else {
      written.shapes.push_back(TRY(ParseShape(part)));
    }
  }
  bool fits = written.shapes.size() == form.shapes.size();
  for (size_t i = 0; fits && i < form.shapes.size(); ++i)
    fits = form.shapes[i] == "shape" || written.shapes[i].size() == Split(form.shapes[i], ',').size();
  if (fits) return written;
  return Err(form.name, " takes ", form.name, ":", Joined(form.shapes, ";"), ", not ", rest.empty() ? "nothing" : rest);
}

// Makes a file name of an operator: "conv2d:1,8,8,4;3,3,4,4;stride=2" -> "conv2d_1x8x8x4_3x3x4x4_stride2".
std::string FileName(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (c == '=' || c == ' ') continue;
    name += c == ',' ? 'x' : c == ':' || c == ';' ? '_' : c;
  }
  return name;
}

}  // namespace

Result<OperatorModule> ParseOperator(std::string_view text) {
  std::string note = "in --op '" + std::string(text) + "'";
  size_t colon = text.find(':');
  const Form* form = TRY_NOTE(FindForm(text.substr(0, colon)), note);
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  Written written = TRY_NOTE(ParseWritten(*form, rest), note);
  Maker maker(written);
  ValueId output = TRY_NOTE(form->make(maker), note);
  graph::Graph made = TRY(maker.Finish(output));
  return OperatorModule{FileName(text), IRModule(std::move(made))};
}

std::string OperatorHelp() {
  std::string text;
  for (const Form& form : Forms()) {
    text += "  " + form.name + ":" + Joined(form.shapes, ";");
    if (!form.options.empty()) text += "   options: " + Joined(form.options);
    text += "\n";
  }
  return text;
}

}  // namespace autotune
