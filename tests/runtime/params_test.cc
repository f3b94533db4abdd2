#include "runtime/params.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <fstream>

#include "runtime/fill.h"
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
    const Params narrow = Narrowed({{"w", OfBits(bits)}});
    EXPECT_EQ(DataTypeText(narrow.at("w").dtype()), is_half ? "f16" : "bf16");
    EXPECT_EQ(narrow.at("w").num_bytes(), 2 * static_cast<int64_t>(bits.size()));
    EXPECT_EQ(Widened(narrow.at("w")).value().bytes(), OfBits(bits).bytes());
  }
}

// One number that has no equal of 16 bits keeps its tensor in 32: one more digit, a larger or a smaller magnitude.
TEST(Params, OtherNumbersKeepTheirBits) {
  for (const float other : {1 + 0x1p-11F, 65536.0F + 0x1p-7F, 0x1p-25F + 0x1p-40F, 0x1p-120F + 0x1p-130F}) {
    const Tensor tensor = OfBits({std::bit_cast<uint32_t>(0.5F), std::bit_cast<uint32_t>(other)});
    const Params kept = Narrowed({{"w", tensor}, {"i", Tensor::Zeros({4}, "i32").value()}});
    EXPECT_EQ(DataTypeText(kept.at("w").dtype()), "f32") << other;
    EXPECT_EQ(kept.at("w").bytes(), tensor.bytes());
    EXPECT_EQ(DataTypeText(kept.at("i").dtype()), "i32");
    EXPECT_EQ(Widened(tensor).value().bytes(), tensor.bytes());
  }
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
