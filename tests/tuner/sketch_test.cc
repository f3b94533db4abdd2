#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/text.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"
#include "topi/pool.h"
#include "tuner/rule/rule.h"
#include "tuner/search.h"

namespace autotune {
namespace {

using namespace test;

TEST(Sketch, ConvolutionsComputeTheSame) {
  CheckSpace(ConvBiasRelu(7, 7, 3, 20, 3, {.pad = {1, 1, 1, 1}}), 6, 2);
  CheckSpace(ConvBiasRelu(5, 9, 4, 17, 1), 6, 2);
  CheckSpace(ConvBiasRelu(9, 6, 2, 16, 3, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}), 6, 2);
  CheckSpace(ConvBiasRelu(6, 6, 8, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 2}), 6);
  CheckSpace(ConvBiasRelu(6, 7, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16}), 6);
}

// Every sketch of a depthwise convolution computes the same, also on shapes that no tile divides.
TEST(Sketch, DepthwiseConvolutionsComputeTheSame) {
  struct Case {
    int64_t h, w, channels, kernel;
    topi::ConvAttrs attrs;
    int64_t multiplier = 1;
  };
  const Case cases[] = {
      {9, 13, 16, 3, {.pad = {1, 1, 1, 1}}},
      {1, 1, 8, 3, {.pad = {1, 1, 1, 1}}},
      {11, 10, 8, 3, {.stride = {2, 2}, .pad = {0, 0, 1, 1}}},
      {8, 7, 24, 5, {.stride = {2, 1}, .pad = {2, 2, 2, 2}}},
      {12, 12, 8, 3, {.dilation = {2, 3}, .pad = {2, 3, 2, 3}}},
      {7, 9, 12, 3, {.pad = {1, 1, 1, 1}}},  // the channels do not fill whole vectors
      {7, 9, 8, 3, {.pad = {1, 1, 1, 1}}, 2},
      {6, 5, 16, 1, {}},
      {5, 17, 8, 2, {.pad = {0, 1, 1, 0}}},
  };
  for (const Case& c : cases) {
    topi::ConvAttrs attrs = c.attrs;
    attrs.groups = c.channels;
    CheckSpace(ConvBiasRelu(c.h, c.w, c.channels, c.channels * c.multiplier, c.kernel, attrs), 6);
    if (::testing::Test::HasFailure()) FAIL() << c.h << " x " << c.w << " x " << c.channels << ", " << c.kernel;
  }
}

TEST(Sketch, DepthwiseConvolutionsReadTheirInputWhereItIs) {
  topi::ConvAttrs attrs{.pad = {1, 1, 1, 1}, .groups = 32};
  auto sketches = GenerateSketches(ConvBiasRelu(14, 14, 32, 32, 3, attrs), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  for (const Sketch& sketch : *sketches) {
    ASSERT_EQ(sketch.stages.size(), 1u);
    EXPECT_EQ(sketch.stages[0].kind, StageModel::kWindow);
  }
  // Groups with several channels are matrix products.
  attrs.groups = 16;
  sketches = GenerateSketches(ConvBiasRelu(14, 14, 32, 32, 3, attrs), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  for (const Sketch& sketch : *sketches) EXPECT_EQ(sketch.stages[0].kind, StageModel::kTiled);
}

// In these convolutions, a vector holds several groups, or ends inside a group.
TEST(Sketch, ConvolutionsAcrossGroupsComputeTheSame) {
  struct Case {
    int64_t h, w, groups, ic, oc, kernel;  // ic and oc: channels of a group
    topi::ConvAttrs attrs;
  };
  const Case cases[] = {
      {7, 9, 4, 4, 4, 3, {.pad = {1, 1, 1, 1}}},
      {9, 6, 8, 2, 2, 3, {.stride = {2, 2}, .pad = {0, 1, 1, 0}}},
      {8, 9, 4, 2, 4, 3, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}}},
      {5, 17, 4, 3, 2, 2, {.pad = {0, 1, 1, 0}}},
      {6, 5, 8, 3, 3, 3, {.pad = {1, 1, 1, 1}}},
      {4, 7, 2, 8, 8, 3, {.pad = {1, 1, 1, 1}}},
      {6, 5, 4, 4, 4, 1, {}},
      {5, 5, 3, 4, 4, 3, {.pad = {1, 1, 1, 1}}},  // the channels do not fill whole vectors
      {1, 1, 2, 4, 4, 3, {.pad = {1, 1, 1, 1}}},
  };
  for (const Case& c : cases) {
    topi::ConvAttrs attrs = c.attrs;
    attrs.groups = c.groups;
    CheckSpace(ConvBiasRelu(c.h, c.w, c.groups * c.ic, c.groups * c.oc, c.kernel, attrs, "across_groups"), 4);
    if (::testing::Test::HasFailure()) FAIL() << c.h << " x " << c.w << ", " << c.groups << " groups of " << c.ic;
  }
}

// If vectors hold several groups, the data is read in place. The draft score prefers such vectors to vectors of one
// group.
TEST(Sketch, GroupsOfLessThanAVectorShareOne) {
  topi::ConvAttrs attrs{.pad = {1, 1, 1, 1}, .groups = 16};
  auto best = [&](std::string_view alternative, StageModel::Kind kind) {
    double least = std::numeric_limits<double>::infinity();
    auto sketches = GenerateSketches(ConvBiasRelu(28, 28, 64, 64, 3, attrs, alternative), TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    Rng rng(1);
    for (const Sketch& sketch : *sketches) {
      EXPECT_EQ(sketch.stages[0].kind, kind);
      for (int i = 0; i < 300; ++i)
        least = std::min(least, DraftSeconds(sketch, DrawDecisions(sketch, rng), TestTarget()));
    }
    return least;
  };
  EXPECT_LT(best("across_groups", StageModel::kWindow), best("direct", StageModel::kTiled));
}

// Half of the window's positions lie above or below an image of four rows. The draft score prefers to skip them.
TEST(Sketch, PaddingOfSmallImagesIsSkipped) {
  auto best = [&](int64_t rows, std::string_view alternative) {
    double least = std::numeric_limits<double>::infinity();
    auto sketches =
        GenerateSketches(ConvBiasRelu(rows, 16, 64, 64, 9, {.pad = {4, 4, 4, 4}}, alternative), TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    Rng rng(1);
    for (const Sketch& sketch : *sketches) {
      EXPECT_EQ(sketch.stages[0].met < 1, alternative == "skip_padding") << sketch.stages[0].met;
      for (int i = 0; i < 300; ++i)
        least = std::min(least, DraftSeconds(sketch, DrawDecisions(sketch, rng), TestTarget()));
    }
    return least;
  };
  EXPECT_LT(best(4, "skip_padding"), 0.8 * best(4, "direct"));
}

// The images of a batch share the weights. A task that computes several of them reads each panel once for all.
TEST(Sketch, ATaskComputesSeveralImages) {
  auto sketches = GenerateSketches(ConvBiasRelu(4, 4, 512, 512, 1, {}, "direct", 8), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  for (const Sketch& sketch : *sketches) {
    const StageModel& s = sketch.stages[0];
    EXPECT_EQ(s.shared, 8);
    ASSERT_GE(s.turns_knob, 0);
    Rng rng(1);
    Decisions d = DrawDecisions(sketch, rng);
    d[s.m_knob] = {{1, 4, 4}};
    d[s.n_knob] = {{32, 1, 16}};
    d[s.turns_knob] = {{1}};
    const double alone = DraftSeconds(sketch, d, TestTarget());
    d[s.turns_knob] = {{8}};
    EXPECT_LT(DraftSeconds(sketch, d, TestTarget()), alone);
  }
}

// The padded copy of an image with three channels is vectorized along the row. Where channels fill whole vectors, it
// goes pixel by pixel.
TEST(Sketch, NarrowPixelsAreCopiedInVectors) {
  auto fuses_pad = [](int64_t channels) {
    auto sketches =
        GenerateSketches(ConvBiasRelu(14, 14, channels, 16, 3, {.stride = {2, 2}, .pad = {1, 1, 1, 1}}), TestTarget());
    EXPECT_TRUE(sketches.ok()) << (sketches.ok() ? "" : sketches.error().Text());
    bool all = sketches.ok();
    for (const Sketch& sketch : *sketches)
      all &= ToText(sketch.trace).find("fuse([conv_pad_i2, conv_pad_i3])") != std::string::npos;
    return all;
  };
  EXPECT_TRUE(fuses_pad(3));
  EXPECT_FALSE(fuses_pad(8));
}

// These products have sketches although tiles overshoot the operands. Packing columns is an option for many rows and
// columns, and not for a single row.
TEST(Sketch, ProductsOfAFewElements) {
  for (const char* cpu : {"znver3", "skylake-avx512"}) {
    Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -num-cores=2 -mcpu=" + std::string(cpu)).value();
    for (int64_t m : {1, 3, 24, 49}) {
      for (int64_t n : {1, 5, 17, 31, 33}) {
        for (int64_t k : {1, 2, 3}) {
          auto sketches = GenerateSketches(test::Product(m, n, k), target);
          ASSERT_TRUE(sketches.ok() && !sketches->empty())
              << cpu << " " << m << " " << n << " " << k << ": " << (sketches.ok() ? "none" : sketches.error().Text());
          auto packs = [](const Sketch& sketch) { return sketch.name.find(":columns") != std::string::npos; };
          bool any = std::any_of(sketches->begin(), sketches->end(), packs);
          if (m == 1 || (m >= 24 && n >= 17)) {
            EXPECT_EQ(any, m > 1) << cpu << " " << m << " " << n << " " << k;
          }
        }
      }
    }
  }
}

// A transposed copy that exceeds the cache follows the order of its input; a smaller copy follows the order of its
// result.
TEST(Sketch, LargeCopiesFollowWhatTheyRead) {
  auto reorders = [](const te::Shape& shape, const std::vector<int>& perm) {
    auto sketches = GenerateSketches(test::Transposed(shape, perm), TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    return ToText((*sketches)[0].trace).find("reorder(") != std::string::npos;
  };
  EXPECT_TRUE(reorders({64, 384, 12, 64}, {0, 2, 1, 3}));
  EXPECT_FALSE(reorders({8, 384, 12, 64}, {0, 2, 1, 3}));
  EXPECT_FALSE(reorders({64, 384, 12, 64}, {0, 1, 2, 3}));
}

TEST(Sketch, TilesOfRowsAPageApartAreCopied) {
  auto copies = [](const te::Shape& shape) {
    auto sketches = GenerateSketches(test::Transposed(shape, {1, 0}), TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    return ToText((*sketches)[0].trace).find("cache_read(") != std::string::npos;
  };
  EXPECT_TRUE(copies({64, 2048}));
  EXPECT_FALSE(copies({64, 2032}));
}

TEST(Sketch, BatchesOfProductsComputeTheSame) {
  CheckSpace(test::Products(3, 13, 24, 9), 6);
  CheckSpace(test::Products(2, 17, 5, 31), 6);
}

TEST(Sketch, DenseLayersComputeTheSame) {
  CheckSpace(Dense(1, 33, 19), 8);
  CheckSpace(Dense(13, 24, 7), 8, 2);
  CheckSpace(Dense(5, 3, 4), 8);
}

TEST(Sketch, PoolsAndElementwiseComputeTheSame) {
  te::Tensor data = te::Placeholder("data", {1, 9, 7, 12});
  te::Tensor pool = topi::MaxPool("pool", data, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
  CheckSpace(te::CreatePrimFunc("f", {{data, ParamRole::kInput}, {pool, ParamRole::kOutput}}), 6);
  te::Tensor average = topi::AvgPool("average", data, {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0, 1, 1}});
  CheckSpace(te::CreatePrimFunc("f", {{data, ParamRole::kInput}, {average, ParamRole::kOutput}}), 6);
  te::Tensor mean = topi::GlobalAvgPool("mean", data);
  CheckSpace(te::CreatePrimFunc("f", {{data, ParamRole::kInput}, {mean, ParamRole::kOutput}}), 6);
  te::Tensor big = te::Placeholder("big", {1, 40, 33, 16});
  te::Tensor twice = topi::Add("twice", big, big);
  CheckSpace(te::CreatePrimFunc("f", {{big, ParamRole::kInput}, {twice, ParamRole::kOutput}}), 6);
}

TEST(Sketch, RowsComputeTheSame) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{12, 64}, {9, 40}, {300, 70}, {1, 33}, {520, 32}}) {
    CheckSpace(test::CenteredSquares(rows, columns), 2);
    CheckSpace(test::RowSums(rows, columns), 2);
  }
}

// Passes over rows are one loop over the rows with all blocks inside. Programs that mix rows have no such loop.
TEST(Sketch, RowsAreOnePass) {
  auto is_rows = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    EXPECT_TRUE(sketches.ok());
    return sketches.ok() && sketches->size() == 1 && (*sketches)[0].name == "rows";
  };
  EXPECT_TRUE(is_rows(test::Softmax({64, 100})));
  EXPECT_TRUE(is_rows(test::Softmax({2, 3, 8, 64})));
  EXPECT_TRUE(is_rows(test::CenteredSquares(64, 96)));
  EXPECT_TRUE(is_rows(test::RowSums(64, 96)));
  EXPECT_FALSE(is_rows(Dense(13, 24, 7)));
  EXPECT_FALSE(is_rows(ConvBiasRelu(7, 7, 3, 20, 3, {.pad = {1, 1, 1, 1}})));
  te::Tensor data = te::Placeholder("data", {1, 9, 7, 12});
  te::Tensor pool = topi::AvgPool("pool", data, {.kernel = {3, 3}});
  EXPECT_FALSE(is_rows(te::CreatePrimFunc("f", {{data, ParamRole::kInput}, {pool, ParamRole::kOutput}})));
}

// The last pass over a row overlaps the next row if rows compute much and their results bypass the caches.
TEST(Sketch, LastPassesOfLargeSoftmaxesOverlap) {
  auto overlaps = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    return sketches.ok() && !sketches->empty() && ToText((*sketches)[0].trace).find("overlap") != std::string::npos;
  };
  EXPECT_TRUE(overlaps(test::Softmax({16384, 1024})));
  EXPECT_FALSE(overlaps(test::Softmax({64, 1024})));
  EXPECT_FALSE(overlaps(test::Softmax({16384, 1000})));  // rows are not whole cache lines
  EXPECT_FALSE(overlaps(test::CenteredSquares(16384, 1024)));
}

TEST(Sketch, ColumnsComputeTheSame) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{300, 64}, {70, 300}, {5, 4099}}) {
    CheckSpace(test::ColumnSums({rows, columns}, {0}), 1);
  }
  CheckSpace(test::ColumnSums({2, 9, 30, 40}, {1, 2}), 1);
  CheckSpace(test::ColumnSums({3, 50, 7, 24}, {1}), 1);
  CheckSpace(test::ColumnSums({307, 64}, {0}), 1);           // the cores' shares do not divide the rows
  CheckSpace(test::ColumnSums({32, 8200}, {0}), 1);          // the partial sums have many columns, too
  CheckSpace(test::ColumnSums({3, 12, 11, 56}, {1, 2}), 1);  // fewer images than cores
}

// Sums of columns read memory in order (":columns"). Small inputs, inputs whose elements are used several times, and
// sums along rows use register tiles or passes over rows.
TEST(Sketch, ColumnsAreReadInOrder) {
  auto name_of = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    return sketches.ok() && !sketches->empty() ? (*sketches)[0].name : std::string();
  };
  EXPECT_EQ(name_of(test::ColumnSums({300, 128}, {0})).find("sum_rf:columns"), 0);  // rows are divided among the cores
  EXPECT_EQ(name_of(test::ColumnSums({307, 128}, {0})), "sum:columns");             // the cores cannot divide the rows
  EXPECT_EQ(name_of(test::ColumnSums({12, 8192}, {0})), "sum:columns");             // too few rows to divide
  EXPECT_EQ(name_of(test::ColumnSums({4, 40, 40, 16}, {1, 2})), "sum:columns");     // images are divided instead
  EXPECT_EQ(name_of(test::ColumnSums({100, 128}, {0})).find(":columns"), std::string::npos);
  EXPECT_EQ(name_of(test::ColumnSums({64, 20, 300}, {2})).find(":columns"), std::string::npos);
  EXPECT_EQ(name_of(Dense(40, 40, 40)).find(":columns"), std::string::npos);
  EXPECT_EQ(name_of(ConvBiasRelu(20, 20, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16})).find(":columns"),
            std::string::npos);
}

// Every block of these kernels has a rule. Rows and columns are divided among the cores where that pays.
TEST(Sketch, SelectionIsScheduled) {
  auto text_of = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    if (!sketches.ok() || sketches->empty()) return std::string("none");
    return (*sketches)[0].name + "\n" + ToText((*sketches)[0].trace);
  };
  using testing::HasSubstr, testing::Not;
  const std::string best = text_of(test::BestOfRows(64, 300, 9)), few = text_of(test::BestOfRows(2, 20, 3));
  EXPECT_THAT(best, AllOf(HasSubstr("top:program"), HasSubstr("parallel"), Not(HasSubstr("no rule"))));
  EXPECT_THAT(few, AllOf(HasSubstr("top:program"), Not(HasSubstr("parallel")), Not(HasSubstr("no rule"))));
  const std::string rows = text_of(test::AddedRows(1000, 64, 2000, false)),
                    elements = text_of(test::AddedRows(1000, 64, 2000, true));
  EXPECT_THAT(rows, AllOf(HasSubstr("scatter_update:scatter"), HasSubstr("vectorize"), Not(HasSubstr("no rule"))));
  EXPECT_THAT(rows, HasSubstr("parallel(scatter_update"));
  EXPECT_THAT(elements, AllOf(HasSubstr("scatter_update:scatter"), Not(HasSubstr("vectorize(scatter_update"))));
  for (int64_t channels : {1, 3, 32, 100}) {
    EXPECT_THAT(text_of(test::GatheredSums(400, channels, 900, 4)), Not(HasSubstr("no rule"))) << channels;
  }
}

TEST(Sketch, ConvolutionsToFewChannelsComputeTheSame) {
  CheckSpace(test::ConvChannelsFirst({2, 5, 9, 20}, {1, 5, 3, 2}, {.stride = {2, 1}, .pad = {1, 0, 1, 1}}), 2);
  CheckSpace(test::ConvChannelsFirst({1, 3, 6, 35}, {4, 3, 1, 5}, {.stride = {1, 2}, .dilation = {1, 2}}), 2);
}

TEST(Sketch, TransposesComputeTheSame) {
  CheckSpace(test::Transposed({33, 40}, {1, 0}), 2);
  CheckSpace(test::Transposed({2, 20, 17, 16}, {0, 2, 3, 1}), 2);
  CheckSpace(test::Transposed({2, 17, 16, 20}, {0, 3, 1, 2}), 2);
  CheckSpace(test::Transposed({2, 5, 3, 24}, {0, 2, 1, 3}), 2);
  CheckSpace(test::Transposed({3, 5}, {1, 0}), 2);
}

TEST(Sketch, DecisionsAreSeededAndDistinct) {
  PrimFunc func = ConvBiasRelu(14, 14, 32, 64, 3, {.pad = {1, 1, 1, 1}});
  auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = (*sketches)[0];
  Rng a(5), b(5), c(6);
  std::set<uint64_t> hashes;
  bool differ = false;
  for (int i = 0; i < 50; ++i) {
    uint64_t x = HashDecisions(sketch, DrawDecisions(sketch, a));
    EXPECT_EQ(x, HashDecisions(sketch, DrawDecisions(sketch, b)));
    differ |= x != HashDecisions(sketch, DrawDecisions(sketch, c));
    hashes.insert(x);
  }
  EXPECT_TRUE(differ);
  EXPECT_GT(hashes.size(), 40u);
}

// Returns how many sketches of a program have `part` in their name.
int CountNamed(const PrimFunc& func, const std::string& part) {
  auto sketches = GenerateSketches(func, TestTarget());
  EXPECT_TRUE(sketches.ok());
  int count = 0;
  for (const Sketch& sketch : *sketches) count += sketch.name.find(part) != std::string::npos;
  return count;
}

TEST(Sketch, OperandsArePackedAtRunTimeWhereThatCanPay) {
  EXPECT_GT(CountNamed(test::Product(32, 128, 64), ":columns"), 0);
  EXPECT_GT(CountNamed(test::Product(32, 128, 64), ":rows"), 0);
  EXPECT_EQ(CountNamed(Dense(32, 128, 64), ":columns"), 0);  // a constant is packed once, in advance
  EXPECT_GT(CountNamed(Dense(32, 128, 64), ":rows"), 0);
  EXPECT_EQ(CountNamed(test::Product(2, 128, 64), ":columns"), 0);  // only two rows read a panel
  EXPECT_EQ(CountNamed(test::Product(32, 128, 63), ":rows"), 0);    // rows do not consist of whole vectors
  EXPECT_EQ(CountNamed(test::Product(32, 16, 64), ":rows"), 0);     // only one panel reads a row
}

// Products prefetch the next panel if panels are the outer loop, and the next rows if rows are not packed. Short sums
// prefetch nothing. The rows of windows are not prefetched, since neighbouring tiles read them again.
TEST(Sketch, ProductsAskForWhatComesNext) {
  auto prefetched = [](const PrimFunc& func) {
    std::set<std::string> buffers;
    auto sketches = GenerateSketches(func, TestTarget());
    EXPECT_TRUE(sketches.ok());
    for (const Sketch& sketch : *sketches) {
      bool behind = false;
      for (const Step& step : sketch.trace) {
        const Prefetch* prefetch = std::get_if<Prefetch>(&step);
        if (prefetch) buffers.insert(prefetch->buffer.str());
        EXPECT_TRUE(prefetch || !behind) << ToText(sketch.trace);
        behind |= prefetch != nullptr;
      }
    }
    return buffers;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(prefetched(ConvBiasRelu(7, 7, 256, 96, 1)), (Names{"data", "weight_conv"}));
  EXPECT_EQ(prefetched(ConvBiasRelu(7, 7, 16, 96, 1)), Names{});
  EXPECT_EQ(prefetched(ConvBiasRelu(7, 7, 64, 96, 3, {.pad = {1, 1, 1, 1}})), Names{"weight_conv"});
}

TEST(Sketch, ProductsThatPackComputeTheSame) {
  CheckSpace(test::Product(27, 72, 12), 12, 6);
  CheckSpace(test::Product(16, 64, 8), 6, 6);
  CheckSpace(test::Product(13, 70, 5), 6, 4);
}

// A product of few rows with many constants reads panels of constants as several streams. There are no streams if many
// rows share the constants, if there are few constants, or if the operand is not constant.
TEST(Sketch, ConstantsUsedOnceAreStreamed) {
  EXPECT_EQ(CountNamed(Dense(1, 128, 256), ":streams"), 1);
  EXPECT_EQ(CountNamed(Dense(4, 128, 256), ":streams"), 1);
  EXPECT_EQ(CountNamed(ConvBiasRelu(1, 1, 128, 256, 1), ":streams"), 1);
  EXPECT_EQ(CountNamed(Dense(5, 128, 256), ":streams"), 0);
  // Constants from beyond a core's own cache are streamed for as many rows as fit the registers with two panels.
  const int64_t rows = (TestTarget().vector_registers - 1) / 2 - 1, beyond = TestTarget().l2_bytes / (256 * 4) + 16;
  ASSERT_GT(rows, 4);
  EXPECT_EQ(CountNamed(Dense(rows, beyond, 256), ":streams"), 1);
  EXPECT_EQ(CountNamed(Dense(rows + 1, beyond, 256), ":streams"), 0);
  EXPECT_EQ(CountNamed(Dense(1, 128, 32), ":streams"), 0);
  EXPECT_EQ(CountNamed(test::Product(1, 128, 256), ":streams"), 0);
  EXPECT_EQ(CountNamed(ConvBiasRelu(3, 2, 128, 256, 1), ":streams"), 0);
}

TEST(Sketch, StreamsComputeTheSame) {
  CheckSpace(Dense(1, 70, 256), 4);
  CheckSpace(Dense(3, 257, 65), 2);
  CheckSpace(ConvBiasRelu(3, 3, 24, 80, 3), 3);  // the window covers the image, so there is one row
}

// Targets without vector instructions use 32 scalar registers.
TEST(Sketch, TargetsWithoutVectorsHaveSchedules) {
  Target target = Target::Parse("llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -num-cores=2").value();
  ASSERT_EQ(target.VectorLanes(32), 1);
  for (const PrimFunc& func : {Dense(12, 16, 20), Dense(1, 33, 19), ConvBiasRelu(7, 7, 3, 20, 3, {.pad = {1, 1, 1, 1}}),
                               ConvBiasRelu(6, 7, 16, 16, 3, {.pad = {1, 1, 1, 1}, .groups = 16})}) {
    CheckSpace(func, 4, 1, target);
  }
}

// Windows use as few vectors as their channels need, and the shortest such vectors. The lanes beyond the last channel
// are masked.
TEST(Sketch, WindowsTakeTheFewestVectorsOfTheirChannels) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2").value();
  for (auto [channels, lanes] :
       {std::pair<int64_t, int64_t>{32, 16}, {24, 16}, {72, 16}, {18, 16}, {8, 8}, {5, 8}, {3, 4}}) {
    auto sketches =
        GenerateSketches(ConvBiasRelu(9, 7, channels, channels, 3, {.pad = {1, 1, 1, 1}, .groups = channels}), target);
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    const StageModel& s = (*sketches)[0].stages[0];
    EXPECT_EQ(s.kind, StageModel::kWindow) << channels;
    EXPECT_EQ(s.lanes, lanes) << channels;
    CheckSpace(ConvBiasRelu(5, 7, channels, channels, 3, {.pad = {1, 1, 1, 1}, .groups = channels}), 4, 1, target);
  }
}

// If an output has only a few columns, they are computed as a part of a vector, not as scalars. If it has one column
// (the product with a vector, the convolution to one channel), the lanes lie along the sum. A convolution with one
// output channel in each of several groups is computed in scalars.
TEST(Sketch, NarrowOutputsAreVectors) {
  for (const char* cpu : {"znver3", "znver4"}) {
    Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -num-cores=2 -mcpu=" + std::string(cpu)).value();
    for (int64_t n : {1, 2, 3, 5, 6, 7}) {
      for (const auto& [func, along_sum] : {std::pair{Dense(13, n, 24), true},
                                            {test::Product(13, n, 24), false},
                                            {ConvBiasRelu(5, 6, 8, n, 3, {.pad = {1, 1, 1, 1}}), true},
                                            {ConvBiasRelu(5, 6, 8, 4 * n, 1, {.groups = 4}), false}}) {
        CheckSpace(func, 4, 1, target);
        if (::testing::Test::HasFailure()) FAIL() << cpu << " " << n << " " << func.name;
        auto sketches = GenerateSketches(func, target);
        for (const Sketch& sketch : *sketches) {
          if (n == 1 && func.name == "dense") {
            EXPECT_EQ(sketch.name, "rows");
            continue;
          }
          const StageModel& tiled = *std::find_if(sketch.stages.begin(), sketch.stages.end(),
                                                  [](const StageModel& s) { return s.kind == StageModel::kTiled; });
          EXPECT_EQ(tiled.n_knob >= 0, n > 1 || along_sum) << cpu << " " << n << " " << func.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace autotune
