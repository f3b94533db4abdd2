#include "tests/compiler/integer_product.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>

namespace autotune {
namespace {

using Longs = std::vector<int64_t>;
constexpr int64_t kMostProducts = 1'200'000;  // of a case [chosen]
constexpr int64_t kMostTerms = 4096;

int64_t Count(const Longs& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string Text(const Longs& shape) {
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

// Draws numbers of one kind: any, one end of the range, both ends, or the ends and their neighbours.
void DrawNumbers(Rng& rng, SmallTensor& b, bool is_weight) {
  const int64_t kind = rng.Below(6);
  const int32_t low = b.low(), high = b.high();
  b.numbers.resize(static_cast<size_t>(Count(b.shape)));
  for (int32_t& number : b.numbers) {
    const auto any = static_cast<int32_t>(low + rng.Below(256));
    switch (kind) {
      case 0:
        number = is_weight ? low : high;  // all -128 against all 255
        break;
      case 1:
        number = is_weight && b.is_signed ? (rng.Below(2) ? 127 : -127) : high;
        break;
      case 2:
        number = rng.Below(2) ? low : high;
        break;
      case 3:
        number = rng.Below(3) ? any : rng.Below(2) ? low : high;
        break;
      default:
        number = any;
    }
  }
}

int32_t DrawZero(Rng& rng, const SmallTensor& b) {
  switch (rng.Below(5)) {
    case 0:
      return b.low();
    case 1:
      return b.high();
    case 2:
      return b.is_signed ? 0 : 128;
    default:
      return static_cast<int32_t>(b.low() + rng.Below(256));
  }
}

void DrawZeros(Rng& rng, SmallTensor& b, int64_t count) {
  b.zeros.resize(static_cast<size_t>(count));
  for (int32_t& zero : b.zeros) zero = DrawZero(rng, b);
}

// Draws zero points of the weights. Most models have none, or 0. Half of the others are so small that the weights minus
// their zero points fit 8 bits.
void DrawWeightZeros(Rng& rng, SmallTensor& w, int64_t columns, bool any) {
  const int64_t kind = rng.Below(any ? 8 : 6);
  if (kind < 6) {
    if (kind % 2 == 1 || !w.is_signed) w.zeros = {w.is_signed ? 0 : 128};
    return;
  }
  DrawZeros(rng, w, kind == 6 ? 1 : columns);
  if (rng.Below(2)) return;
  const int32_t middle = w.is_signed ? 0 : 128;
  for (int32_t& zero : w.zeros) zero = middle + (zero - middle) / 5;
  for (int32_t& number : w.numbers) number = std::clamp(number, middle - 100, middle + 100);
}

int64_t DrawTerms(Rng& rng) {
  static const Longs edges = {1,   3,   4,   5,   8,    15,   16,   17,   63,   64,   65,   127,  128, 129,
                              255, 256, 257, 511, 1000, 1023, 1024, 1025, 2047, 2049, 4093, 4095, 4096};
  switch (rng.Below(4)) {
    case 0:
      return 1 + rng.Below(70);
    case 1:
      return 1 + rng.Below(kMostTerms);
    default:
      return edges[static_cast<size_t>(rng.Below(static_cast<int64_t>(edges.size())))];
  }
}

// Returns an extent of an image in three dimensions: dimensions that it lacks have one pixel.
Longs InThree(Longs extents, int64_t missing) {
  extents.insert(extents.begin(), 3 - extents.size(), missing);
  return extents;
}

}  // namespace

int64_t IntegerProduct::Columns() const { return convolves || transposed ? w.shape.front() : w.shape.back(); }

int64_t IntegerProduct::ColumnOf(size_t element) const {
  const auto at = static_cast<int64_t>(element);
  if (!convolves) return at % shape.back();
  return at / Count(Longs(shape.begin() + 2, shape.end())) % shape[1];
}

int64_t IntegerProduct::Terms() const { return convolves ? Count(w.shape) / w.shape.front() : x.shape.back(); }

std::string IntegerProduct::Text() const {
  const auto bytes = [](const SmallTensor& b) {
    std::string text = (b.is_signed ? "i8 " : "u8 ") + autotune::Text(b.shape);
    if (!b.zeros.empty()) text += " zero " + std::to_string(b.zeros[0]);
    return b.zeros.size() > 1 ? text + "..." : text;
  };
  std::string text = bytes(x) + " by " + bytes(w) + (transposed ? " transposed" : "");
  if (!convolves) return text;
  return text + " groups " + std::to_string(groups) + " strides " + autotune::Text(strides) + " dilations " +
         autotune::Text(dilations) + " pads " + autotune::Text(pads);
}

void IntegerProduct::Compute() { convolves ? Convolve() : Multiply(); }

void IntegerProduct::Multiply() {
  const int64_t terms = x.shape.back(), columns = Columns(), rows = x.shape[x.shape.size() - 2];
  const bool batched = w.shape.size() > 2;
  shape = x.shape;
  shape.back() = columns;
  const int64_t matrices = Count(x.shape) / terms / rows;
  for (int64_t i = 0; i < matrices * rows; ++i) {
    const int32_t x_zero = x.zeros.empty() ? 0 : x.zeros[x.zeros.size() == 1 ? 0 : static_cast<size_t>(i % rows)];
    for (int64_t j = 0; j < columns; ++j) {
      const int32_t w_zero = w.zeros.empty() ? 0 : w.zeros[w.zeros.size() == 1 ? 0 : static_cast<size_t>(j)];
      const int32_t* row = &x.numbers[static_cast<size_t>(i * terms)];
      const int32_t* weights = w.numbers.data() + (batched ? i / rows * terms * columns : 0);
      const int64_t from = transposed ? j * terms : j, step = transposed ? 1 : columns;
      int64_t sum = 0, magnitude = 0;
      for (int64_t t = 0; t < terms; ++t) {
        const int64_t term = int64_t{row[t] - x_zero} * (weights[from + t * step] - w_zero);
        sum += term;
        magnitude += std::abs(term);
      }
      sums.push_back(sum);
      magnitudes.push_back(magnitude);
    }
  }
}

void IntegerProduct::Convolve() {
  const size_t rank = strides.size();
  const Longs image = InThree(Longs(x.shape.begin() + 2, x.shape.end()), 1);
  const Longs kernel = InThree(Longs(w.shape.begin() + 2, w.shape.end()), 1);
  const Longs stride = InThree(strides, 1), dilation = InThree(dilations, 1);
  const Longs pad = InThree(Longs(pads.begin(), pads.begin() + static_cast<int64_t>(rank)), 0);
  const Longs behind = InThree(Longs(pads.begin() + static_cast<int64_t>(rank), pads.end()), 0);
  Longs out(3);
  for (size_t d = 0; d < 3; ++d)
    out[d] = (image[d] + pad[d] + behind[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  const int64_t channels = w.shape[1], outputs = w.shape[0], taps = Count(kernel), pixels = Count(image);
  shape = {x.shape[0], outputs};
  shape.insert(shape.end(), out.end() - static_cast<int64_t>(rank), out.end());
  const int32_t x_zero = x.zeros.empty() ? 0 : x.zeros[0];
  for (int64_t at = 0; at < Count(shape); ++at) {
    const int64_t pixel = at % Count(out), o = at / Count(out) % outputs, n = at / Count(out) / outputs;
    const Longs place = {pixel / (out[1] * out[2]), pixel / out[2] % out[1], pixel % out[2]};
    const int64_t first = o / (outputs / groups) * channels;  // channel of the group
    const int32_t w_zero = w.zeros.empty() ? 0 : w.zeros[w.zeros.size() == 1 ? 0 : static_cast<size_t>(o)];
    int64_t sum = 0, magnitude = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const Longs offset = {tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]};
      int64_t from = 0;
      bool inside = true;
      for (size_t d = 0; d < 3; ++d) {
        const int64_t i = place[d] * stride[d] + offset[d] * dilation[d] - pad[d];
        inside = inside && i >= 0 && i < image[d];
        from = from * image[d] + i;
      }
      if (!inside) continue;  // padding stands for the zero point
      for (int64_t c = 0; c < channels; ++c) {
        const int32_t value = x.numbers[static_cast<size_t>((n * x.shape[1] + first + c) * pixels + from)];
        const int32_t weight = w.numbers[static_cast<size_t>((o * channels + c) * taps + tap)];
        const int64_t term = int64_t{value - x_zero} * (weight - w_zero);
        sum += term;
        magnitude += std::abs(term);
      }
    }
    sums.push_back(sum);
    magnitudes.push_back(magnitude);
  }
}

IntegerProduct DrawMatrixProduct(Rng& rng, const ProductLimits& limits) {
  IntegerProduct p;
  const int64_t terms = DrawTerms(rng), columns = 1 + rng.Below(rng.Below(3) ? 70 : 200);
  const int64_t most = std::max<int64_t>(1, kMostProducts / (terms * columns));
  const int64_t rows = 1 + (rng.Below(4) ? rng.Below(std::min<int64_t>(most, 40)) : 0);
  p.x.shape = {rows, terms};
  const bool batch = limits.batched && rng.Below(3) == 0;
  if (batch) p.x.shape.insert(p.x.shape.begin(), 1 + rng.Below(std::clamp<int64_t>(most / rows, 1, 3)));
  p.transposed = limits.transposable && rng.Below(2);
  p.w.shape = p.transposed ? Longs{columns, terms} : Longs{terms, columns};
  if (batch && rng.Below(3) == 0) p.w.shape.insert(p.w.shape.begin(), p.x.shape[0]);
  p.x.is_signed = rng.Below(2);
  p.w.is_signed = rng.Below(4) != 0;
  DrawNumbers(rng, p.x, false);
  DrawNumbers(rng, p.w, true);
  if (rng.Below(4)) DrawZeros(rng, p.x, limits.row_zeros && p.x.shape.size() == 2 && rng.Below(3) == 0 ? rows : 1);
  DrawWeightZeros(rng, p.w, columns, limits.any_weight_zeros && p.w.shape.size() == 2);
  p.Compute();
  return p;
}

IntegerProduct DrawConvolution(Rng& rng, const SmallTensor* data) {
  IntegerProduct p;
  p.convolves = true;
  const int64_t rank = data ? static_cast<int64_t>(data->shape.size()) - 2 : 1 + std::min<int64_t>(2, rng.Below(7) / 2);
  const bool deep = !data && rng.Below(5) == 0;  // many terms
  // channels: of a group; multiples: results of a group
  int64_t channels = 1 + rng.Below(deep ? 450 : 70), multiples = 1 + rng.Below(deep ? 20 : 70);
  const int64_t kind = rng.Below(4);  // 0: depthwise, 1: in groups
  if (data) {
    p.groups = kind == 0 ? data->shape[1] : 1;
    channels = data->shape[1] / p.groups;
    if (kind == 0) multiples = 1 + rng.Below(2);
  } else if (kind == 0) {
    p.groups = channels = std::min<int64_t>(channels, 70);
    channels = 1;
    multiples = rng.Below(2) ? 1 : 1 + rng.Below(3);
  } else if (kind == 1) {
    p.groups = 2 + rng.Below(4);
    channels = 1 + rng.Below(16);
    multiples = 1 + rng.Below(16);
  }
  const int64_t most = rank == 1 ? 40 : rank == 2 ? 12 : 5, most_taps = rank == 1 ? 9 : rank == 2 ? 5 : 3;
  p.x.shape = {1 + (rng.Below(4) == 0), p.groups * channels};
  p.w.shape = {p.groups * multiples, channels};
  if (data) p.x.shape[0] = data->shape[0];
  Longs behind;
  int64_t products = Count(p.x.shape) / channels * multiples * channels;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t taps_left = std::max<int64_t>(1, kMostTerms / (Count(p.w.shape) / p.w.shape[0]));
    const int64_t taps = std::min(taps_left, rng.Below(3) ? std::min<int64_t>(3, most_taps) : 1 + rng.Below(most_taps));
    const int64_t dilation = rng.Below(4) ? 1 : 1 + rng.Below(3), stride = rng.Below(2) ? 1 : 1 + rng.Below(3);
    const int64_t window = dilation * (taps - 1) + 1;
    const int64_t least = deep ? 1 : 2, image = data ? data->shape[static_cast<size_t>(d) + 2]
                                                     : least + rng.Below(products > kMostProducts / 50 ? 3 : most);
    const bool pads = rng.Below(3) != 0;
    int64_t before = pads ? rng.Below(window) : 0, after = pads ? rng.Below(window) : 0;
    if (image + before + after < window) after = window - image - before;
    p.x.shape.push_back(image);
    p.w.shape.push_back(taps);
    p.strides.push_back(stride);
    p.dilations.push_back(dilation);
    p.pads.push_back(before);
    behind.push_back(after);
    products *= taps * std::max<int64_t>(1, (image + before + after) / stride);
  }
  p.pads.insert(p.pads.end(), behind.begin(), behind.end());
  p.x.is_signed = rng.Below(2);
  p.w.is_signed = rng.Below(4) != 0;
  if (data) {
    p.x = *data;
  } else {
    DrawNumbers(rng, p.x, false);
    if (rng.Below(4)) DrawZeros(rng, p.x, 1);
  }
  DrawNumbers(rng, p.w, true);
  DrawWeightZeros(rng, p.w, p.w.shape[0], true);
  p.Compute();
  return p;
}

}  // namespace autotune
