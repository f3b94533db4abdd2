#include "archives/npz.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "runtime/npy.h"
#include "support/file.h"
#include "tests/read.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

class Npz : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "npz-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    path_ = folder_ + "/arrays.npz";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static Tensor Numbers(const std::vector<float>& values) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return Tensor::FromBytes({static_cast<int64_t>(values.size())}, DataTypeFromText("f32").value(), bytes).value();
  }
  std::string folder_, path_;
};

TEST_F(Npz, IsReadAsWritten) {
  const NamedTensors arrays = {{"x:0", Numbers({1, 2, 3})}, {"a/b", Numbers({-4})}, {"", Numbers({})}};
  ASSERT_TRUE(WriteNpz(path_, arrays).ok());
  const Result<NamedTensors> read = ReadNpz(path_);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  ASSERT_EQ(read->size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ((*read)[i].first, arrays[i].first);
    EXPECT_EQ(NpyBytes((*read)[i].second).value(), NpyBytes(arrays[i].second).value());
  }
}

TEST_F(Npz, TwoArraysOfOneNameAreNotWritten) {
  const Status status = WriteNpz(path_, {{"x", Numbers({1})}, {"x", Numbers({2})}});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().Text(), HasSubstr("two arrays are called x"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Npz, WhatIsNoneIsRefusedByName) {
  EXPECT_FALSE(ReadNpz(folder_ + "/none.npz").ok());
  ASSERT_TRUE(WriteNpz(path_, {{"x", Numbers({1, 2, 3})}}).ok());
  const std::string right = test::ReadAll(path_);
  std::string other = right;  // the member is called x.bin
  for (size_t at = 0; (at = other.find("x.npy", at)) != std::string::npos;) other.replace(at, 5, "x.bin");
  std::string damaged = right;
  damaged[damaged.find("NUMPY")] = 'M';
  for (const auto& [bytes, word] : {std::pair<std::string, std::string>{other, "x.bin is not a .npy file"},
                                    {damaged, "x.npy"},
                                    {"text", "arrays.npz"},
                                    {right.substr(0, right.size() / 2), "arrays.npz"}}) {
    ASSERT_TRUE(WriteFile(path_, bytes).ok());
    const Result<NamedTensors> read = ReadNpz(path_);
    ASSERT_FALSE(read.ok()) << word;
    EXPECT_THAT(read.error().Text(), HasSubstr(word));
  }
}

}  // namespace
}  // namespace autotune
