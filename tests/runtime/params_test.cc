#include "runtime/params.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <fstream>

#include "runtime/fill.h"
#include "runtime/stored_params.h"
#include "support/file.h"
#include "support/half.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {
namespace {

using testing::HasSubstr;

Params Sample() {
  Params params;
  params["conv.weight"] = Tensor::Empty({3, 3, 4, 8}, "f32").value();
  params["conv.bias"] = Tensor::Empty({8}, "f64").value();
  params["empty"] = Tensor::Empty({0}, "i64").value();
  params["flag"] = Tensor::Empty({}, "bool").value();
  for (auto& [name, tensor] : params) FillRandom(tensor, name.size());
  return params;
}

void ExpectEqual(const Params& a, const Params& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const Tensor& other = b.at(name);
    EXPECT_EQ(tensor.TypeText(), other.TypeText());
    EXPECT_EQ(tensor.bytes(), other.bytes());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other.data()) % 64, 0u);
  }
}

TEST(Params, GoThereAndBack) {
  Params params = Sample();
  std::string blob = ParamsBytes(params);
  auto parsed = ParseParams(blob);
  ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
  ExpectEqual(params, *parsed);
  std::string path = TempDir() + "/a.params";
  ASSERT_TRUE(WriteFile(path, blob).ok());
  {
    auto loaded = LoadParams(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
    ExpectEqual(params, *loaded);
  }
  EXPECT_TRUE(ParseParams(ParamsBytes({}))->empty());
}

Tensor OfBits(const std::vector<uint32_t>& bits) {
  Tensor tensor = Tensor::Empty({static_cast<int64_t>(bits.size())}, "f32").value();
  std::copy(bits.begin(), bits.end(), tensor.Data<uint32_t>());
  return tensor;
}

// A graph whose only variable is a constant.
Graph GraphWith(const std::string& name, std::vector<int64_t> shape, const std::string& dtype = "f32") {
  Graph graph;
  graph.nodes.push_back({.name = name, .outputs = {{.dtype = dtype, .shape = std::move(shape)}}});
  return graph;
}

// Returns the constant "w" as a reader gets it.
Tensor Restored(const Params& stored, std::vector<int64_t> shape) {
  return Widened(GraphWith("w", std::move(shape)), stored).value().at("w");
}

// Each number of f16 and of bf16 is stored in 16 bits, denormal ones, infinities and NaN as well, and comes back with
// the same bits.
TEST(Params, NumbersOf16BitsTake16Bits) {
  for (const bool is_half : {true, false}) {
    std::vector<uint32_t> bits;
    for (uint32_t i = 0; i <= 0xffff; ++i) {
      const auto half = static_cast<uint16_t>(i);
      const auto all = std::bit_cast<uint32_t>(is_half ? HalfFromBits(half) : BFloatFromBits(half));
      const bool is_nan = (all & 0x7fffffff) > 0x7f800000;
      if (!is_nan || (all & 0x1fff) == 0) bits.push_back(all);
    }
    const Params narrow = Narrowed({{"w", OfBits(bits)}}, {}).value();
    EXPECT_EQ(DataTypeText(narrow.at("w").dtype()), is_half ? "f16" : "bf16");
    EXPECT_EQ(narrow.at("w").num_bytes(), 2 * static_cast<int64_t>(bits.size()));
    EXPECT_EQ(Restored(narrow, OfBits(bits).shape()).bytes(), OfBits(bits).bytes());
  }
}

// Words that are bytes with a sign are stored as bytes; one that is none keeps them all words.
TEST(Params, WordsThatAreBytesTake8Bits) {
  for (const int other : {-128, 127, -129, 128}) {
    const Tensor words = Tensor::Empty({3}, "i16").value();
    words.Data<int16_t>()[0] = 0, words.Data<int16_t>()[1] = -1;
    words.Data<int16_t>()[2] = static_cast<int16_t>(other);
    const Params stored = Narrowed({{"w", words}}, {}).value();
    EXPECT_EQ(DataTypeText(stored.at("w").dtype()), other < -128 || other > 127 ? "i16" : "i8") << other;
    const Params whole = Widened(GraphWith("w", {3}, "i16"), stored).value();
    EXPECT_EQ(DataTypeText(whole.at("w").dtype()), "i16");
    EXPECT_EQ(whole.at("w").bytes(), words.bytes()) << other;
  }
}

// One number that has no equal of 16 bits keeps its tensor in 32: one more digit, a larger or a smaller magnitude.
TEST(Params, OtherNumbersKeepTheirBits) {
  for (const float other : {1 + 0x1p-11F, 65536.0F + 0x1p-7F, 0x1p-25F + 0x1p-40F, 0x1p-120F + 0x1p-130F}) {
    const Tensor tensor = OfBits({std::bit_cast<uint32_t>(0.5F), std::bit_cast<uint32_t>(other)});
    const Params kept = Narrowed({{"w", tensor}, {"i", Tensor::Zeros({4}, "i32").value()}}, {}).value();
    EXPECT_EQ(DataTypeText(kept.at("w").dtype()), "f32") << other;
    EXPECT_EQ(kept.at("w").bytes(), tensor.bytes());
    EXPECT_EQ(DataTypeText(kept.at("i").dtype()), "i32");
    EXPECT_EQ(Restored(kept, {2}).bytes(), tensor.bytes());
  }
}

// Integers with a scale for each block and column: `least` and `range` bound those of a block. Returns the integers and
// scales, and their products.
std::pair<ScaledIntegers, Tensor> Blocks(std::vector<int64_t> shape, std::vector<int64_t> groups, int least, int range,
                                         bool drifts) {
  ScaledIntegers made{Tensor::Empty(shape, "i8").value(), Tensor::Empty(groups, "f32").value()};
  Tensor product = Tensor::Empty(shape, "f32").value();
  FillRandom(made.scales, 7);
  for (int64_t i = 0; i < made.numbers.num_elements(); ++i) {
    const int64_t c = i % shape[2], b = i / (shape[1] * shape[2]);
    const int64_t group = (groups[0] > 1 ? b : 0) * groups[2] + (groups[2] > 1 ? c : 0);
    const int number = least + static_cast<int>((i * 7 + i / 5) % (range + 1)) + (drifts ? static_cast<int>(c % 3) : 0);
    made.numbers.Data<int8_t>()[i] = static_cast<int8_t>(number);
    product.Data<float>()[i] = static_cast<float>(number) * made.scales.Data<float>()[group];
  }
  return {made, product};
}

// Weights of 4 bits take half a byte, those of 8 bits one, and all come back with the same bits: with an offset for all
// groups or for each, with scales for blocks, columns, both or none.
TEST(Params, ScaledIntegersTakeTheirBits) {
  for (const auto& groups : std::vector<std::vector<int64_t>>{{3, 1, 6}, {1, 1, 6}, {3, 1, 1}, {1, 1, 1}}) {
    for (const int range : {15, 200}) {
      for (const bool drifts : {false, true}) {
        const int least = range == 15 ? -8 : -100;
        const auto [scaled, product] = Blocks({3, 4, 6}, groups, least, range, drifts);
        const Params stored = Narrowed({{"w", product}}, {{"w", scaled}}).value();
        EXPECT_FALSE(stored.contains("w"));
        const bool halves = range == 15 && (!drifts || groups[2] > 1);
        EXPECT_EQ(stored.at("w.numbers").num_bytes(), halves ? 36 : 72);
        EXPECT_EQ(stored.contains("w.offsets"), halves);
        EXPECT_EQ(Restored(stored, {12, 6}).bytes(), product.bytes());
      }
    }
  }
}

// Integers and scales of other numbers do not replace a constant.
TEST(Params, AnotherProductIsNotStored) {
  auto [scaled, product] = Blocks({3, 4, 6}, {3, 1, 6}, -8, 15, true);
  product.Data<float>()[17] += 1;
  const Params stored = Narrowed({{"w", product}}, {{"w", scaled}}).value();
  EXPECT_EQ(stored.at("w").bytes(), product.bytes());
  EXPECT_FALSE(stored.contains("w.numbers"));
}

// Parts that do not fit each other, as a hostile package may have, are named.
TEST(Params, PartsThatDoNotFitAreErrors) {
  const auto [scaled, product] = Blocks({3, 4, 6}, {3, 1, 6}, -8, 15, true);
  const Params stored = Narrowed({{"w", product}}, {{"w", scaled}}).value();
  const auto error = [&](const std::string& part, Tensor other, std::vector<int64_t> shape = {12, 6}) {
    Params bad = stored;
    if (other.defined()) {
      bad[part] = std::move(other);
    } else {
      bad.erase(part);
    }
    const Result<Params> widened = Widened(GraphWith("w", std::move(shape)), std::move(bad));
    return widened.ok() ? "" : widened.error().Text();
  };
  EXPECT_EQ(error("other", Tensor::Zeros({1}, "f32").value()), "");
  EXPECT_THAT(error("w.scales", {}), HasSubstr("'w' has no scales"));
  EXPECT_THAT(error("w.scales", Tensor::Zeros({3, 1, 5}, "f32").value()), HasSubstr("do not fit"));
  EXPECT_THAT(error("w.scales", Tensor::Zeros({3, 1, 6}, "i32").value()), HasSubstr("do not fit"));
  EXPECT_THAT(error("w.scales", Tensor::Zeros({18}, "f32").value()), HasSubstr("do not fit"));
  EXPECT_THAT(error("w.offsets", {}), HasSubstr("offsets"));
  EXPECT_THAT(error("w.offsets", Tensor::Zeros({3, 2, 6}, "i8").value()), HasSubstr("offsets"));
  EXPECT_THAT(error("w.numbers", Tensor::Zeros({3, 4, 4}, "u8").value()), HasSubstr("offsets"));
  EXPECT_THAT(error("w.numbers", Tensor::Zeros({3, 4, 3}, "f32").value()), HasSubstr("its numbers are"));
  EXPECT_THAT(error("w.numbers", Tensor::Zeros({}, "u8").value()), HasSubstr("its numbers are"));
  EXPECT_THAT(error("other", Tensor::Zeros({1}, "f32").value(), {12, 7}), HasSubstr("cannot view"));
}

TEST(Params, DamagedFilesAreErrors) {
  std::string blob = ParamsBytes(Sample());
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(ParseParams(blob.substr(0, size)).ok()) << size;
  }
  for (size_t i = 0; i < blob.size(); ++i) {
    for (int bit : {0, 4, 7}) {
      std::string bad = blob;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      (void)ParseParams(bad).ok();  // may be valid with another name, but must not crash
    }
  }
  auto with = [&](size_t at, uint64_t value) {
    std::string bad = blob;
    std::memcpy(bad.data() + at, &value, sizeof value);
    return ParseParams(bad).error().Text();
  };
  EXPECT_THAT(with(0, 1), HasSubstr("not a parameters file"));
  EXPECT_THAT(with(8, 1), HasSubstr("reserved number is not 0"));
  EXPECT_THAT(with(16, 3), HasSubstr("parameters"));
  EXPECT_THAT(with(16, uint64_t{1} << 60), HasSubstr("do not fit"));
  EXPECT_THAT(ParseParams(blob + "x").error().Text(), HasSubstr("1 bytes too many"));
  EXPECT_THAT(ParseParams("ATPARAMS, and more").error().Text(), HasSubstr("an older release"));
  EXPECT_THAT(ParseParams("hello").error().Text(), HasSubstr("not a parameters file"));
  EXPECT_THAT(LoadParams("/nonexistent").error().Text(), HasSubstr("cannot read /nonexistent"));
}

}  // namespace
}  // namespace autotune
