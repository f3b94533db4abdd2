// TfIdfVectorizer for numbers: counts how often the sequences of a pool occur.
#include <algorithm>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// A pool of sequences: first all sequences of one element, then all of two elements, and so on.
struct Pool {
  std::vector<int64_t> elements, begins;  // elements of all sequences; for each length, the index of its first element
  std::vector<int64_t> columns;           // for each sequence, its column of the result
  int64_t shortest = 1, longest = 1, most_skipped = 0, width = 0;
  int64_t End(size_t i) const { return i + 1 < begins.size() ? begins[i + 1] : static_cast<int64_t>(elements.size()); }
};

Result<Pool> ReadPool(const ImportContext& c) {
  Pool p;
  if (c.HasAttr("pool_strings")) return Err("strings are not supported");
  p.elements = TRY(c.IntList("pool_int64s", {}));
  p.begins = TRY(c.IntList("ngram_counts", {}));
  p.columns = TRY(c.IntList("ngram_indexes", {}));
  p.shortest = TRY(c.Int("min_gram_length", 1));
  p.longest = TRY(c.Int("max_gram_length", 1));
  p.most_skipped = TRY(c.Int("max_skip_count", 0));
  constexpr int64_t kMostLength = 64, kMostColumns = 1 << 24;
  if (p.shortest < 1 || p.longest < p.shortest || p.longest > kMostLength || p.most_skipped < 0 ||
      p.most_skipped > kMostColumns)
    return Err("min_gram_length, max_gram_length or max_skip_count is impossible");
  if (static_cast<int64_t>(p.begins.size()) > kMostLength)
    return Err("there are more than ", kMostLength, " ngram_counts");
  size_t sequences = 0;
  for (size_t i = 0; i < p.begins.size(); ++i) {
    const int64_t length = static_cast<int64_t>(i) + 1, n = p.End(i) - p.begins[i];
    if (p.begins[i] < 0 || n < 0 || p.End(i) > static_cast<int64_t>(p.elements.size()) || n % length != 0)
      return Err("ngram_counts ", ShapeText(p.begins), " do not fit a pool of ", p.elements.size());
    sequences += static_cast<size_t>(n / length);
  }
  if (sequences == 0 || sequences != p.columns.size())
    return Err("the pool has ", sequences, " sequences for ", p.columns.size(), " ngram_indexes");
  for (int64_t column : p.columns) {
    if (column < 0 || column > kMostColumns)
      return Err("ngram_indexes hold ", column, ", which is not between 0 and ", kMostColumns);
    p.width = std::max(p.width, column + 1);
  }
  return p;
}

// Counts how often each sequence of `length` elements occurs in each row of x. Neighbours in the sequence lie `step`
// elements apart in the row. `wanted` holds the sequences one after the other. Returns [rows, number of sequences], or
// nothing if the rows are too short.
Result<std::optional<ValueId>> Counts(ImportContext& c, ValueId x, const std::vector<int64_t>& wanted, int64_t length,
                                      int64_t step) {
  const int64_t rows = c.ShapeOfValue(x)[0], places = c.ShapeOfValue(x)[1] - (length - 1) * step;
  const int64_t count = static_cast<int64_t>(wanted.size()) / length;
  if (places < 1) return std::optional<ValueId>();
  std::optional<ValueId> all;
  for (int64_t k = 0; k < length; ++k) {
    std::vector<int64_t> column(count);
    for (int64_t g = 0; g < count; ++g) column[g] = wanted[g * length + k];
    ValueId element = c.builder.AddConstant("", TensorValue::Of<int64_t>({count}, column));
    ValueId at = TRY(c.Reshape(TRY(c.Cut(x, 1, k * step, places)), {rows, places, 1}));
    ValueId equal = TRY(c.Apply(Op::kEqual, at, element));
    all = all ? TRY(c.Apply(Op::kAnd, *all, equal)) : equal;
  }
  ValueId sum = TRY(c.Reduce(Op::kReduceSum, TRY(c.Cast(*all, DType::Float(32))), {1}));
  sum = TRY(c.Reshape(sum, {rows, count}));
  return std::optional<ValueId>(sum);
}

// Counts how often each sequence of `length` elements occurs. Sums up the counts for all allowed numbers of skipped
// elements between neighbours.
Result<ValueId> CountsOfLength(ImportContext& c, ValueId x, const Pool& p, int64_t length) {
  const size_t i = static_cast<size_t>(length) - 1;
  const std::vector<int64_t> wanted(p.elements.begin() + p.begins[i], p.elements.begin() + p.End(i));
  const int64_t rows = c.ShapeOfValue(x)[0], count = static_cast<int64_t>(wanted.size()) / length;
  ValueId sum =
      TRY(c.Emit(Op::kBroadcastTo, {c.builder.AddConstant("", TensorValue::Scalar(0))}, ReshapeAttrs{{rows, count}}));
  if (length < p.shortest || length > p.longest) return sum;
  const int64_t skips = length == 1 ? 0 : std::min(p.most_skipped, c.ShapeOfValue(x)[1]);
  for (int64_t skip = 0; skip <= skips; ++skip) {
    if (std::optional<ValueId> some = TRY(Counts(c, x, wanted, length, skip + 1)))
      sum = TRY(c.Apply(Op::kAdd, sum, *some));
  }
  return sum;
}

Status ImportTfIdfVectorizer(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape shape = c.ShapeOfValue(x);
  if (shape.empty() || shape.size() > 2 || !c.Type(x).IsInt() || c.builder.Spec(x).NumElements() == 0)
    return Err("is supported on integers of rank 1 or 2, not on ", c.builder.Spec(x).Text());
  const Pool p = TRY(ReadPool(c));
  const std::string mode = TRY(c.String("mode", ""));
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return Err("mode '", mode, "' is not one of TF, IDF, TFIDF");
  const size_t sequences = p.columns.size();
  std::vector<float> weights = TRY(c.FloatList("weights", std::vector<float>(sequences, 1)));
  if (weights.size() != sequences) return Err("has ", weights.size(), " weights for ", sequences, " sequences");
  if (mode == "TF") weights.assign(sequences, 1);
  x = TRY(c.Cast(TRY(c.Reshape(x, {shape.size() == 1 ? 1 : shape[0], shape.back()})), DType::Int(64)));
  std::vector<ValueId> counts;
  for (size_t i = 0; i < p.begins.size(); ++i) {
    if (p.End(i) > p.begins[i]) counts.push_back(TRY(CountsOfLength(c, x, p, static_cast<int64_t>(i) + 1)));
  }
  ValueId all = TRY(c.Emit(Op::kConcat, counts, AxisAttrs{1}));
  if (mode == "IDF") all = TRY(c.Cast(TRY(c.ApplyToNumber(Op::kLess, 0, all)), DType::Float(32)));
  TRY(c.Reserve({static_cast<int64_t>(sequences), p.width}));
  std::vector<double> table(sequences * static_cast<size_t>(p.width), 0);
  for (size_t g = 0; g < sequences; ++g)
    table[g * static_cast<size_t>(p.width) + static_cast<size_t>(p.columns[g])] = weights[g];
  const Shape extents = {static_cast<int64_t>(sequences), p.width};
  ValueId y =
      TRY(MatMulValues(c, all, c.builder.AddConstant("", TensorValue::FromNumbers(DType::Float(32), extents, table))));
  return c.Bind(TRY(c.Reshape(y, shape.size() == 1 ? Shape{p.width} : Shape{shape[0], p.width})));
}

}  // namespace

const std::vector<OperatorRow>& NgramOperators() {
  static const std::vector<OperatorRow> rows = {
      {"TfIdfVectorizer", 9, 28, ImportTfIdfVectorizer},
  };
  return rows;
}

}  // namespace autotune::onnx_import
