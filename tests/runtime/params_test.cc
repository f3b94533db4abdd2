#include "runtime/params.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "runtime/fill.h"
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
  ASSERT_TRUE(SaveParams(path, params).ok());
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
  uint64_t header_bytes;
  std::memcpy(&header_bytes, blob.data() + 16, 8);
  for (size_t i = 0; i < header_bytes; ++i) {
    for (int bit : {0, 4, 7}) {
      std::string bad = blob;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      (void)ParseParams(bad).ok();  // may be right with another name; must not crash
    }
  }
  std::string newer = blob;
  newer[8] = 2;
  EXPECT_THAT(ParseParams(newer).error().Text(), HasSubstr("version 2"));
  EXPECT_THAT(ParseParams("hello").error().Text(), HasSubstr("not a parameters file"));
  EXPECT_THAT(LoadParams("/nonexistent").error().Text(), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace autotune
