#include "runtime/tensor.h"

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace autotune {
namespace {

TEST(Tensor, EmptyIsAlignedAndCounted) {
  Tensor a = Tensor::Empty({2, 3, 5}, "f32").value();
  EXPECT_EQ(a.num_elements(), 30);
  EXPECT_EQ(a.num_bytes(), 120);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  EXPECT_EQ(a.TypeText(), "f32[2, 3, 5]");
  Tensor b = a;
  EXPECT_EQ(a.use_count(), 2);
  EXPECT_EQ(b.data(), a.data());
  EXPECT_EQ(Tensor::Empty({}, "i64").value().num_elements(), 1);
  EXPECT_EQ(Tensor::Empty({4, 0}, "i64").value().num_bytes(), 0);
  EXPECT_EQ(Tensor::Empty({3}, "bool").value().num_bytes(), 3);
}

TEST(Tensor, BadShapesAreErrors) {
  EXPECT_FALSE(Tensor::Empty({-1}, "f32").ok());
  EXPECT_FALSE(Tensor::Empty({int64_t{1} << 40, int64_t{1} << 40}, "f32").ok());
  EXPECT_FALSE(Tensor::Empty({int64_t{1} << 50}, "f32").ok());
  EXPECT_FALSE(Tensor::Empty({1}, "f33").ok());
  EXPECT_FALSE(Tensor::FromBytes({3}, {kDLFloat, 32, 1}, "four").ok());
}

TEST(Tensor, TypeTextsGoThereAndBack) {
  for (const char* text : {"f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
    EXPECT_EQ(DataTypeText(DataTypeFromText(text).value()), text);
  }
  EXPECT_FALSE(DataTypeFromText("float32").ok());
}

TEST(Tensor, DLPackGoesThereAndBack) {
  Tensor a = Tensor::FromBytes({2, 2}, {kDLInt, 8, 1}, "abcd").value();
  DLManagedTensor* managed = a.ToDLPack();
  EXPECT_EQ(a.use_count(), 2);
  Tensor b = Tensor::FromDLPack(managed).value();
  void* data = a.data();
  a = Tensor();
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.bytes(), "abcd");

  int64_t strides[] = {1, 2};
  managed = b.ToDLPack();
  managed->dl_tensor.strides = strides;
  Tensor transposed = Tensor::FromDLPack(managed).value();  // not compact, so it is copied
  EXPECT_EQ(transposed.bytes(), "acbd");
  EXPECT_NE(transposed.data(), data);

  managed = b.ToDLPack();
  managed->dl_tensor.byte_offset = 1;  // not aligned, so it is copied
  managed->dl_tensor.ndim = 1;
  EXPECT_EQ(Tensor::FromDLPack(managed).value().bytes(), "bc");

  managed = b.ToDLPack();
  int64_t negative[] = {-1, 2};
  managed->dl_tensor.shape = negative;
  EXPECT_FALSE(Tensor::FromDLPack(managed).ok());
  managed = b.ToDLPack();
  managed->dl_tensor.device = {kDLMetal, 0};
  EXPECT_FALSE(Tensor::FromDLPack(managed).ok());
}

TEST(Tensor, VersionedDLPackSaysWhatIsReadOnly) {
  const Tensor a = Tensor::FromBytes({2, 2}, {kDLInt, 8, 1}, "abcd").value();
  const Tensor writable = Tensor::FromDLPack(a.ToVersionedDLPack()).value();
  EXPECT_EQ(writable.data(), a.data());
  EXPECT_FALSE(writable.read_only());
  const Tensor constant = Tensor::FromDLPack(a.ReadOnly().ToVersionedDLPack()).value();
  EXPECT_EQ(constant.data(), a.data());
  EXPECT_TRUE(constant.read_only());
  EXPECT_TRUE(constant.Reshape({4})->read_only());
  EXPECT_FALSE(constant.Copy()->read_only());
  EXPECT_FALSE(CopyTensor(a, constant).ok());
  EXPECT_TRUE(CopyTensor(constant, a).ok());
  DLManagedTensorVersioned* newer = a.ToVersionedDLPack();
  newer->version.major = 2;
  EXPECT_FALSE(Tensor::FromDLPack(newer).ok());
  EXPECT_EQ(a.use_count(), 2) << "every handle was freed, also that of the refused tensor; `writable` is one";
}

TEST(Tensor, StridesAreCopiedOnceAndEmptyTensorsNeedNoData) {
  char bytes[] = "abcdef";
  const DLDataType type = {kDLInt, 8, 1};
  EXPECT_EQ(Tensor::Strided(bytes, {2, 3}, {3, 1}, type, nullptr)->data(), bytes);
  EXPECT_EQ(Tensor::Strided(bytes, {3, 2}, {1, 3}, type, nullptr)->bytes(), "adbecf");
  EXPECT_EQ(Tensor::Strided(bytes + 5, {3}, {-2}, type, nullptr)->bytes(), "fdb");
  EXPECT_EQ(Tensor::Strided(bytes, {2, 2}, {0, 1}, type, nullptr)->bytes(), "abab");
  EXPECT_EQ(Tensor::Strided(nullptr, {0, 3}, {7, 7}, type, nullptr)->num_bytes(), 0);
  EXPECT_FALSE(Tensor::Strided(bytes, {2, 3}, {3}, type, nullptr).ok());
  EXPECT_FALSE(Tensor::Strided(nullptr, {2}, {1}, type, nullptr).ok());
}

TEST(Tensor, ReshapeSharesCopyDoesNot) {
  Tensor a = Tensor::Zeros({2, 3}, "i32").value();
  Tensor view = a.Reshape({6}).value(), copy = a.Copy().value();
  a.Data<int32_t>()[5] = 9;
  EXPECT_EQ(view.Data<int32_t>()[5], 9);
  EXPECT_EQ(copy.Data<int32_t>()[5], 0);
  EXPECT_FALSE(a.Reshape({5}).ok());
}

}  // namespace
}  // namespace autotune
