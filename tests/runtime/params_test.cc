#include "runtime/params.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "runtime/fill.h"
#include "support/file.h"
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
