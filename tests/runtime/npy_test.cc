#include "runtime/npy.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/fill.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {
namespace {

using testing::HasSubstr;

// Returns the file that numpy.save writes in format version 1.
std::string Npy(std::string header, std::string data) {
  std::string out = std::string("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header + data;
}
std::string NpyError(const std::string& bytes) {
  auto tensor = ParseNpy(bytes);
  EXPECT_FALSE(tensor.ok());
  return tensor.ok() ? "" : tensor.error().Text();
}

TEST(Npy, GoesThereAndBack) {
  for (const char* type : {"bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"}) {
    for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {1}, {7}, {2, 3}, {0, 4}, {1, 3, 2, 5}}) {
      Tensor a = Tensor::Empty(shape, type).value();
      FillRandom(a, 3);
      std::string bytes = NpyBytes(a).value();
      EXPECT_EQ((bytes.size() - a.num_bytes()) % 64, 0u);
      auto b = ParseNpy(bytes);
      ASSERT_TRUE(b.ok()) << b.error().Text();
      EXPECT_EQ(b->TypeText(), a.TypeText());
      EXPECT_EQ(b->bytes(), a.bytes());
    }
  }
  EXPECT_FALSE(NpyBytes(Tensor::Zeros({1}, "bf16").value()).ok());
}

TEST(Npy, ReadsWhatNumpyWrites) {
  std::string data("\x01\0\0\0\x02\0\0\0", 8);
  Tensor a = ParseNpy(Npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }          \n", data)).value();
  EXPECT_EQ(a.TypeText(), "i32[2]");
  EXPECT_EQ(a.Data<int32_t>()[1], 2);
  // If only one dimension is longer than 1, Fortran and C order are the same.
  EXPECT_TRUE(ParseNpy(Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2), }\n", data)).ok());
}

TEST(Npy, Files) {
  std::string path = TempDir() + "/a.npy";
  Tensor a = Tensor::Zeros({3}, "f32").value();
  ASSERT_TRUE(WriteNpy(path, a).ok());
  EXPECT_EQ(ReadNpy(path)->bytes(), a.bytes());
  EXPECT_THAT(ReadNpy(path + "x").error().Text(), HasSubstr("cannot open"));
  EXPECT_THAT(WriteNpy("/nonexistent/a.npy", a).error().Text(), HasSubstr("cannot write"));
  std::ofstream(path) << "junk";
  EXPECT_THAT(ReadNpy(path).error().Text(), HasSubstr("a.npy"));
}

TEST(Npy, ErrorsAreClear) {
  std::string data(16, 'x');
  EXPECT_THAT(NpyError(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(NpyError("PK\x03\x04"), HasSubstr("not a .npy file"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", data)),
              HasSubstr("Fortran order"));
  EXPECT_THAT(NpyError(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", data)),
              HasSubstr("little-endian"));
  EXPECT_THAT(NpyError(Npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }", data)),
              HasSubstr("'|O' is not supported"));
  EXPECT_THAT(NpyError(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }", data)),
              HasSubstr("structured"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", data)),
              HasSubstr("truncated"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", data)),
              HasSubstr("trailing bytes"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", data)),
              HasSubstr("malformed"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", data)),
              HasSubstr("too large"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4', 'shape': (2, 2), }", data)), HasSubstr("malformed"));
  EXPECT_THAT(NpyError(Npy("{'descr': '<f4", data).substr(0, 18)), HasSubstr("truncated"));
  std::string good = NpyBytes(Tensor::Zeros({2, 2}, "f32").value()).value();
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(ParseNpy(good.substr(0, size)).ok()) << size;
  for (size_t i = 0; i < 100; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    (void)ParseNpy(bad).ok();  // must not crash
  }
}

}  // namespace
}  // namespace autotune
