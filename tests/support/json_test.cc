#include "support/json.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <vector>

#include "support/cbor.h"

namespace autotune {
namespace {

enum class Color { kRed, kGreen };

struct Inner {
  int count = 7;
  std::optional<double> scale;
  AUTOTUNE_FIELDS(count, scale)
};
struct Outer {
  std::string name;
  std::vector<Inner> items;
  Color color = Color::kRed;
  std::map<std::string, int64_t> sizes;
  bool on = false;
  AUTOTUNE_FIELDS(name, items, color, sizes, on)
};

}  // namespace
AUTOTUNE_ENUM(Color, "red", "green")
namespace {

std::string ToHex(const std::string& bytes) {
  std::ostringstream digits;
  for (unsigned char byte : bytes) digits << std::hex << std::setw(2) << std::setfill('0') << int{byte};
  return digits.str();
}
std::string FromHex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

TEST(Json, StructsGoThereAndBack) {
  Outer a{"x", {{1, 2.5}, {3, {}}}, Color::kGreen, {{"k", 9}}, true};
  std::string text = ToJson(a).Dump();
  EXPECT_EQ(
      text,
      R"({"color":"green","items":[{"count":1,"scale":2.5},{"count":3,"scale":null}],"name":"x","on":true,"sizes":{"k":9}})");
  auto parsed = Json::Parse(text);
  ASSERT_TRUE(parsed.ok());
  auto b = FromJson<Outer>(*parsed);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(ToJson(*b).Dump(), text);
  auto cbor = Json::ParseCbor(ToJson(a).Cbor());
  ASSERT_TRUE(cbor.ok());
  EXPECT_EQ(*cbor, *parsed);
}

// The bytes of a struct are those of its Json, whose members are sorted; the struct declares them in another order.
TEST(Json, CborOfAStructIsThatOfItsJson) {
  for (const Outer& a : {Outer{"x", {{-1, 2.5}, {3, {}}}, Color::kGreen, {{"k", 9}, {"b", -300}}, true}, Outer{}}) {
    EXPECT_EQ(ToHex(ToCbor(a)), ToHex(ToJson(a).Cbor()));
    EXPECT_EQ(Json::ParseCbor(ToCbor(a)).value(), ToJson(a));
  }
  const std::vector<Json> values{Json(),
                                 Json(true),
                                 Json(1.5),
                                 Json("text"),
                                 Json(Json::Bytes{"bytes"}),
                                 Json(Json::Array{1, "a"}),
                                 Json(Json::Object{{"b", 1}, {"a", nullptr}})};
  EXPECT_EQ(ToHex(ToCbor(values)), ToHex(ToJson(values).Cbor()));
  EXPECT_NE(ToCbor(Outer{"x"}), ToCbor(Outer{"y"}));
}

TEST(Json, MissingMembersKeepDefaultsAndUnknownOnesAreIgnored) {
  auto parsed = Json::Parse(R"({"items":[{"new":1}],"later":[1,2]})");
  auto outer = FromJson<Outer>(*parsed);
  ASSERT_TRUE(outer.ok());
  EXPECT_EQ(outer->items.at(0).count, 7);
}

TEST(Json, AMisfitNamesItsPath) {
  auto parsed = Json::Parse(R"({"items":[{"count":1},{"count":"many"}]})");
  auto outer = FromJson<Outer>(*parsed);
  ASSERT_FALSE(outer.ok());
  EXPECT_EQ(outer.error().message, "items[1].count: expected an integer in range");
}

TEST(Json, MalformedTextIsAnError) {
  EXPECT_FALSE(Json::Parse("{\"a\":").ok());
  EXPECT_FALSE(Json::Parse("").ok());
  EXPECT_FALSE(Json::ParseCbor("\xff\xff").ok());
  EXPECT_FALSE(Json::Parse(std::string(100000, '[')).ok());
}

TEST(Json, DeepNestingIsAnError) {
  for (const char* level : {"\x81", "\xa1\x61z", "\x9f", "\x7f", "\x5f"}) {
    std::string bytes;
    for (int i = 0; i < 1000000; ++i) bytes += level;
    EXPECT_FALSE(Json::ParseCbor(bytes).ok()) << static_cast<int>(static_cast<unsigned char>(*level));
    EXPECT_FALSE(Json::ParseCbor("\x82\x61z" + bytes).ok());
  }
  EXPECT_FALSE(Json::ParseCbor("\x7f\x61z\xff").ok());  // a string of indefinite length
  EXPECT_TRUE(Json::ParseCbor("\x9f\x61z\xff").ok());   // an array of indefinite length
  // These bytes inside a string or a number are not heads of strings of indefinite length.
  Json harmless(Json::Object{{"b", Json::Bytes{std::string(300, '\x7f')}}, {"n", int64_t{0x7f5f7f5f}}, {"x", 0.1}});
  auto back = Json::ParseCbor(harmless.Cbor());
  ASSERT_TRUE(back.ok()) << back.error().Text();
  EXPECT_EQ(*back, harmless);
}

// Examples of RFC 8949, appendix A.
TEST(Json, CborIsThatOfTheStandard) {
  const std::vector<std::pair<Json, std::string>> both = {
      {0, "00"},
      {23, "17"},
      {24, "1818"},
      {1000, "1903e8"},
      {1000000, "1a000f4240"},
      {1000000000000, "1b000000e8d4a51000"},
      {INT64_MAX, "1b7fffffffffffffff"},
      {-1, "20"},
      {-1000, "3903e7"},
      {INT64_MIN, "3b7fffffffffffffff"},
      {100000.0, "fa47c35000"},
      {1.1, "fb3ff199999999999a"},
      {1e300, "fb7e37e43c8800759c"},
      {INFINITY, "f97c00"},
      {-INFINITY, "f9fc00"},
      {false, "f4"},
      {true, "f5"},
      {nullptr, "f6"},
      {Json::Bytes{"\1\2\3\4"}, "4401020304"},
      {"IETF", "6449455446"},
      {"\u6c34", "63e6b0b4"},
      {Json::Array{1, Json::Array{2, 3}}, "8201820203"},
      {Json::Object{{"a", 1}, {"b", Json::Array{2, 3}}}, "a26161016162820203"},
  };
  for (const auto& [json, digits] : both) {
    EXPECT_EQ(ToHex(json.Cbor()), digits);
    const auto back = Json::ParseCbor(FromHex(digits));
    ASSERT_TRUE(back.ok()) << digits << ": " << back.error().Text();
    EXPECT_EQ(*back, json) << digits;
  }
  const std::vector<std::pair<std::string, Json>> only_read = {
      {"1bffffffffffffffff", 18446744073709551615.0},
      {"3bffffffffffffffff", -18446744073709551616.0},
      {"f93c00", 1.0},
      {"f90001", 5.960464477539063e-8},
      {"9f018202039f0405ffff", Json::Array{1, Json::Array{2, 3}, Json::Array{4, 5}}},
      {"bf61610161629f0203ffff", Json::Object{{"a", 1}, {"b", Json::Array{2, 3}}}},
      {"a2616101616102", Json::Object{{"a", 2}}},
  };
  for (const auto& [digits, json] : only_read) {
    const auto read = Json::ParseCbor(FromHex(digits));
    ASSERT_TRUE(read.ok()) << digits << ": " << read.error().Text();
    EXPECT_EQ(*read, json) << digits;
  }
  for (const char* digits : {"",       "18",       "1901",
                             "1c",     "1f",       "3f",
                             "0000",   "62e6",     "5bffffffffffffffff",
                             "8101ff", "8201",     "9bffffffffffffffff",
                             "9f01",   "a1",       "a16161",
                             "a10101", "bf6161ff", "a17f616161ff01",
                             "c001",   "d82040",   "e0",
                             "f7",     "f818",     "fa47c3",
                             "fc",     "ff",       "81ff"})
    EXPECT_FALSE(Json::ParseCbor(FromHex(digits)).ok()) << digits;
  EXPECT_TRUE(std::isnan(*Json::ParseCbor(Json(NAN).Cbor()).value().As<double>()));
}

TEST(Json, NestingUpToTheLimitIsRead) {
  const auto nested = [](size_t levels) { return std::string(levels, '\x81') + std::string(1, '\x01'); };
  EXPECT_TRUE(Json::ParseCbor(nested(128)).ok());
  EXPECT_FALSE(Json::ParseCbor(nested(129)).ok());
}

TEST(Json, BytesSurviveCbor) {
  Json json(Json::Object{{"b", Json::Bytes{std::string("\0\x01z", 3)}}});
  auto back = Json::ParseCbor(json.Cbor());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, json);
}

}  // namespace
}  // namespace autotune
