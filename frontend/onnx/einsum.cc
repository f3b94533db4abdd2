// Imports Einsum as transposes, diagonals, sums, and one product for each pair of operands.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Labels of dimensions. The label of a letter is its character code. The label of dimension i from the end of an
// ellipsis is kEllipsis - i.
using Labels = std::vector<int>;
constexpr int kEllipsis = -1;

struct Term {
  Labels labels;
  int ellipsis = -1;  // position of the ellipsis among the labels; -1: there is none
};

struct EinsumOperand {
  ValueId value = 0;
  Labels labels;  // one for each dimension; all different once Prepare has taken the diagonals
};

bool Holds(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
int64_t PlaceOf(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

Result<Term> ReadTerm(const std::string& text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
    if (letter) {
      term.labels.push_back(text[i]);
    } else if (text.compare(i, 3, "...") == 0 && term.ellipsis < 0) {
      term.ellipsis = static_cast<int>(term.labels.size());
      i += 2;
    } else {
      return Err("term '", text, "' is not made of letters and at most one ellipsis");
    }
  }
  return term;
}

struct Equation {
  std::vector<Term> inputs;
  std::optional<Term> output;
};

Result<Equation> ReadEquation(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  if (size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.output = TRY(ReadTerm(text.substr(arrow + 2)));
    text.resize(arrow);
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    equation.inputs.push_back(TRY(ReadTerm(text.substr(begin, comma - begin))));
    begin = comma + 1;
  }
  return equation;
}

// Returns the labels of a tensor's dimensions. The ellipsis covers the dimensions that the letters leave over.
Result<Labels> Spread(const Term& term, int rank) {
  const int named = static_cast<int>(term.labels.size());
  if (named > rank || (term.ellipsis < 0 && named < rank))
    return Err("names ", named, " dimensions of a tensor of rank ", rank);
  Labels labels = term.labels;
  for (int i = 0; i < rank - named; ++i) labels.insert(labels.begin() + term.ellipsis, kEllipsis - i);
  return labels;
}

class Contraction {
 public:
  Contraction(ImportContext& c, std::vector<EinsumOperand> operands, Labels output, std::map<int, int64_t> extents)
      : c_(c), operands_(std::move(operands)), output_(std::move(output)), extents_(std::move(extents)) {}

  Result<ValueId> Run() {
    for (EinsumOperand& operand : operands_) TRY(Prepare(operand));
    SumOwn();
    for (EinsumOperand& operand : operands_) TRY(Sum(operand));
    while (operands_.size() > 1) TRY(JoinCheapest());
    return Finish(operands_[0]);
  }

 private:
  // Takes the diagonal of dimensions with the same label. Removes dimensions of extent 1 that broadcast to others.
  Status Prepare(EinsumOperand& operand) {
    for (size_t i = 0; i < operand.labels.size();) {
      const size_t j = i + 1 + PlaceOf(Labels(operand.labels.begin() + i + 1, operand.labels.end()), operand.labels[i]);
      if (j < operand.labels.size()) {
        TRY(Diagonal(operand, i, j));
      } else {
        ++i;
      }
    }
    Shape shape;
    Labels labels;
    for (size_t d = 0; d < operand.labels.size(); ++d) {
      const int64_t extent = c_.ShapeOfValue(operand.value)[d];
      if (extent == 1 && extents_[operand.labels[d]] != 1) continue;
      shape.push_back(extent);
      labels.push_back(operand.labels[d]);
    }
    operand.value = TRY(c_.Reshape(operand.value, shape));
    operand.labels = labels;
    return {};
  }

  Status Diagonal(EinsumOperand& operand, size_t i, size_t j) {
    const Shape shape = c_.ShapeOfValue(operand.value);
    const int label = operand.labels[i];
    const int64_t n = shape[i];
    if (shape[j] != n)
      return Err("takes the diagonal of ", c_.builder.Spec(operand.value).Text(), ", whose extents differ");
    std::vector<int64_t> perm;
    Labels labels;
    Shape rest;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d == i || d == j) continue;
      perm.push_back(static_cast<int64_t>(d));
      labels.push_back(operand.labels[d]);
      rest.push_back(shape[d]);
    }
    perm.push_back(static_cast<int64_t>(i));
    perm.push_back(static_cast<int64_t>(j));
    labels.push_back(label);
    Shape flat = rest;
    flat.push_back(n * n);
    ValueId v = TRY(c_.Reshape(TRY(c_.Transpose(operand.value, perm)), flat));
    SliceAttrs a{Shape(flat.size(), 0), flat, Shape(flat.size(), 1)};
    a.extent.back() = n;
    a.step.back() = n + 1;
    operand.value = n == 1 ? v : TRY(c_.Emit(Op::kSlice, {v}, a));
    operand.labels = labels;
    return {};
  }

  // Returns true if the output or an operand other than a and b has the label.
  bool NeededBeside(int label, size_t a, size_t b) const {
    if (Holds(output_, label)) return true;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (i != a && i != b && Holds(operands_[i].labels, label)) return true;
    }
    return false;
  }

  void SumOwn() {
    summed_.assign(operands_.size(), {});
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (int label : operands_[i].labels) {
        if (!NeededBeside(label, i, i)) summed_[i].insert(label);
      }
    }
  }

  // Sums up the dimensions that only this operand has.
  Status Sum(EinsumOperand& operand) {
    const std::set<int>& own = summed_[&operand - operands_.data()];
    if (own.empty()) return {};
    std::vector<int64_t> axes;
    Shape shape;
    Labels labels;
    for (size_t d = 0; d < operand.labels.size(); ++d) {
      if (own.count(operand.labels[d])) {
        axes.push_back(static_cast<int64_t>(d));
      } else {
        shape.push_back(c_.ShapeOfValue(operand.value)[d]);
        labels.push_back(operand.labels[d]);
      }
    }
    operand.value = TRY(c_.Reshape(TRY(c_.Reduce(Op::kReduceSum, operand.value, axes)), shape));
    operand.labels = labels;
    return {};
  }

  int64_t ExtentOf(const Labels& labels) const {
    int64_t n = 1;
    for (int label : labels) n = std::min(n * extents_.at(label), int64_t{1} << 40);
    return n;
  }

  // The labels of a pair of operands a and b. Both operands have the labels `batch`, which stay, and the labels `sums`,
  // which are summed up. Only a has the labels `left`, only b the labels `right`.
  struct Roles {
    Labels batch, sums, left, right;
  };
  Roles RolesOf(size_t a, size_t b) const {
    Roles roles;
    for (int label : operands_[a].labels) {
      const bool both = Holds(operands_[b].labels, label);
      (!both ? roles.left : NeededBeside(label, a, b) ? roles.batch : roles.sums).push_back(label);
    }
    for (int label : operands_[b].labels) {
      if (!Holds(operands_[a].labels, label)) roles.right.push_back(label);
    }
    return roles;
  }

  // Joins the two operands whose product has the fewest elements.
  Status JoinCheapest() {
    size_t first = 0, second = 1;
    int64_t best = std::numeric_limits<int64_t>::max();
    for (size_t a = 0; a < operands_.size(); ++a) {
      for (size_t b = a + 1; b < operands_.size(); ++b) {
        const Roles roles = RolesOf(a, b);
        const int64_t n = ExtentOf(Joined({roles.batch, roles.left, roles.right}));
        if (n < best) best = n, first = a, second = b;
      }
    }
    operands_[first] = TRY(Join(first, second));
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(second));
    return {};
  }

  static Labels Joined(const std::vector<Labels>& parts) {
    Labels all;
    for (const Labels& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  Result<ValueId> Ordered(const EinsumOperand& operand, const Labels& order) {
    std::vector<int64_t> perm;
    for (int label : order) perm.push_back(PlaceOf(operand.labels, label));
    return c_.Transpose(operand.value, perm);
  }

  Result<EinsumOperand> Join(size_t a, size_t b) {
    const Roles r = RolesOf(a, b);
    const int64_t batch = ExtentOf(r.batch), sums = ExtentOf(r.sums), left = ExtentOf(r.left),
                  right = ExtentOf(r.right);
    ValueId x = TRY(Ordered(operands_[a], Joined({r.batch, r.left, r.sums})));
    ValueId y = TRY(Ordered(operands_[b], Joined({r.batch, r.sums, r.right})));
    ValueId z = 0;
    if (r.sums.empty()) {  // no dimension is summed up
      x = TRY(c_.Reshape(x, {batch, left, 1}));
      y = TRY(c_.Reshape(y, {batch, 1, right}));
      z = TRY(c_.Apply(Op::kMul, x, y));
    } else {
      x = TRY(c_.Reshape(x, {batch, left, sums}));
      y = TRY(c_.Reshape(y, {batch, sums, right}));
      z = TRY(MatMulValues(c_, x, y));
    }
    EinsumOperand out{0, Joined({r.batch, r.left, r.right})};
    Shape shape;
    for (int label : out.labels) shape.push_back(extents_.at(label));
    out.value = TRY(c_.Reshape(z, shape));
    return out;
  }

  // Puts the dimensions into the order of the output.
  Result<ValueId> Finish(const EinsumOperand& operand) {
    Labels order;
    Shape shape;
    for (int label : output_) {
      if (Holds(operand.labels, label)) order.push_back(label);
      shape.push_back(extents_.at(label));
    }
    return c_.Reshape(TRY(Ordered(operand, order)), shape);
  }

  ImportContext& c_;
  std::vector<EinsumOperand> operands_;
  Labels output_;
  std::map<int, int64_t> extents_;
  std::vector<std::set<int>> summed_;  // for each operand, the labels to sum up
};

// Returns the output's labels if the equation states no output: the ellipsis, then all labels that occur once, in
// alphabetical order.
Labels ImplicitOutput(const std::vector<EinsumOperand>& operands) {
  std::map<int, int> counts;
  for (const EinsumOperand& operand : operands) {
    for (int label : operand.labels) ++counts[label];
  }
  Labels output;
  for (auto [label, count] : counts) {
    if (label <= kEllipsis || count == 1) output.push_back(label);
  }
  return output;
}

Status ImportEinsum(ImportContext& c) {
  const Equation equation = TRY(ReadEquation(TRY(c.String("equation", ""))));
  const std::vector<ValueId> values = TRY(c.AllTensors());
  if (values.size() != equation.inputs.size())
    return Err("the equation has ", equation.inputs.size(), " terms for ", values.size(), " inputs");
  std::vector<EinsumOperand> operands;
  std::map<int, int64_t> extents;
  int around = 0;  // number of dimensions that the ellipsis covers
  for (size_t i = 0; i < values.size(); ++i) {
    const Shape& shape = c.ShapeOfValue(values[i]);
    EinsumOperand operand;
    operand.value = values[i];
    operand.labels = TRY(Spread(equation.inputs[i], c.Rank(values[i])));
    around = std::max(around, c.Rank(values[i]) - static_cast<int>(equation.inputs[i].labels.size()));
    for (size_t d = 0; d < shape.size(); ++d) {
      auto [extent, is_new] = extents.try_emplace(operand.labels[d], shape[d]);
      if (extent->second == 1) extent->second = shape[d];
      if (shape[d] != 1 && shape[d] != extent->second)
        return Err("one label stands for dimensions of different extents: ", extent->second, " and ", shape[d]);
    }
    operands.push_back(std::move(operand));
  }
  Labels output = ImplicitOutput(operands);
  if (equation.output) {
    const int named = static_cast<int>(equation.output->labels.size());
    output = TRY(Spread(*equation.output, named + (equation.output->ellipsis < 0 ? 0 : around)));
  }
  if (std::set<int>(output.begin(), output.end()).size() != output.size()) return Err("the output names a label twice");
  for (int label : output) {
    if (!extents.count(label)) return Err("the output names a label that no input has");
  }
  if (c.Type(values[0]).IsBool()) return Err("is for numbers, not ", c.builder.Spec(values[0]).Text());
  return c.Bind(TRY(Contraction(c, std::move(operands), std::move(output), std::move(extents)).Run()));
}

}  // namespace

const std::vector<OperatorRow>& EinsumOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Einsum", 12, 28, ImportEinsum},
  };
  return rows;
}

}  // namespace autotune::onnx_import
