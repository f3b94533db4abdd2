#include "support/json.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(Json, BytesSurviveCbor) {
  Json json(Json::Object{{"b", Json::Bytes{std::string("\0\x01z", 3)}}});
  auto back = Json::ParseCbor(json.Cbor());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, json);
}

}  // namespace
}  // namespace autotune
