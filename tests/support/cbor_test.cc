#include "support/cbor.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/json.h"

namespace autotune {

enum class Metal { kIron, kTin };
AUTOTUNE_ENUM(Metal, "iron", "tin")

namespace {

struct Part {
  int count = 7;
  std::optional<double> weight;
  AUTOTUNE_FIELDS(count, weight)
};
struct Machine {
  std::string name;
  std::vector<Part> parts;
  Metal metal = Metal::kIron;
  std::map<std::string, int64_t> sizes;
  bool on = false;
  Json::Bytes bytes;
  Json any;
  AUTOTUNE_FIELDS(name, parts, metal, sizes, on, bytes, any)
};

Result<Machine> Read(const Json& json, const CborLimits& limits = {}) {
  Machine machine;
  TRY(FromCbor(json.Cbor(), machine, limits));
  return machine;
}
std::string WhyNot(const Json& json, const CborLimits& limits = {}) {
  const Result<Machine> read = Read(json, limits);
  return read ? "" : read.error().Text();
}

TEST(Cbor, StructsGoThereAndBack) {
  const Machine whole{"x", {{-1, 2.5}, {3, {}}}, Metal::kTin, {{"k", 9}, {"b", -300}}, true, {"\1\2"}, Json("free")};
  for (const Machine& machine : {whole, Machine{}}) {
    Machine back{.name = "other", .parts = {Part{}}, .sizes = {{"other", 1}}};
    ASSERT_TRUE(FromCbor(ToCbor(machine), back));
    EXPECT_EQ(ToJson(back), ToJson(machine));
  }
}

TEST(Cbor, MissingMembersStayAndUnknownOnesAreIgnoredInAnyOrder) {
  // {"sizes": {"a": 1}, "later": [1, {"x": 2}], "name": "n"}, of indefinite length.
  const std::string bytes = "\xbf\x65sizes\xa1\x61\x61\x01\x65later\x82\x01\xa1\x61x\x02\x64name\x61n\xff";
  Machine machine{.parts = {Part{5, {}}}};
  ASSERT_TRUE(FromCbor(bytes, machine));
  EXPECT_EQ(machine.name, "n");
  EXPECT_EQ(machine.sizes.at("a"), 1);
  EXPECT_EQ(machine.parts.at(0).count, 5);
}

TEST(Cbor, AMisfitNamesItsPath) {
  const auto parts = [](Json count) { return Json(Json::Array{Json::Object{}, Json::Object{{"count", count}}}); };
  EXPECT_EQ(WhyNot(Json::Object{{"parts", parts(1)}}), "");
  EXPECT_EQ(WhyNot(Json::Object{{"parts", parts("many")}}), "parts[1].count: expected an integer in range");
  EXPECT_EQ(WhyNot(Json::Object{{"parts", parts(int64_t{1} << 31)}}), "parts[1].count: expected an integer in range");
  EXPECT_EQ(WhyNot(Json::Object{{"sizes", Json::Object{{"a", 1.5}}}}), "sizes.a: expected an integer in range");
  EXPECT_EQ(WhyNot(Json::Object{{"metal", "gold"}}), "metal: expected one of a fixed list of words");
  EXPECT_EQ(WhyNot(Json::Object{{"on", 1}}), "on: expected true or false");
  EXPECT_EQ(WhyNot(Json::Object{{"bytes", "text"}}), "bytes: expected bytes");
  EXPECT_EQ(WhyNot(Json::Object{{"name", nullptr}}), "name: expected a string");
  EXPECT_EQ(WhyNot(Json::Array{}), "value: expected an object");
}

TEST(Cbor, LimitsCountForAllTexts) {
  const CborLimits limits{.text_bytes = 5, .only_utf8 = true};
  const std::vector<Json> right = {Json::Object{{"name", "12345"}}, Json::Object{{"new", Json::Array{"\u6c34"}}}};
  const std::vector<Json> wrong = {
      Json::Object{{"name", "123456"}}, Json::Object{{"new", Json::Array{"123456"}}},
      Json::Object{{"123456", 1}},      Json::Object{{"sizes", Json::Object{{"123456", 1}}}},
      Json::Object{{"name", "\xc3"}},   Json::Object{{"new", Json::Object{{"\xc3", 1}}}}};
  for (const Json& json : right) EXPECT_EQ(WhyNot(json, limits), "");
  for (const Json& json : wrong) {
    EXPECT_NE(WhyNot(json, limits), "") << json.Dump();
    EXPECT_EQ(WhyNot(json), "") << json.Dump();
  }
}

TEST(Cbor, WhatIsMalformedOrDeepIsRefused) {
  const std::string whole = ToCbor(Machine{"x", {{1, 2.5}}, Metal::kTin, {{"k", 9}}, true, {"b"}, Json(1)});
  Machine machine;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(FromCbor(std::string_view(whole).substr(0, bytes), machine)) << bytes;
  EXPECT_FALSE(FromCbor(whole + "\x01", machine));
  EXPECT_TRUE(FromCbor(whole, machine));
  // An unknown member with arrays in each other; the map around them counts, too.
  const auto nested = [](size_t levels) { return "\xa1\x61z" + std::string(levels, '\x81') + "\x01"; };
  EXPECT_TRUE(FromCbor(nested(127), machine));
  EXPECT_FALSE(FromCbor(nested(128), machine));
  EXPECT_FALSE(FromCbor(nested(1000000), machine));
  // Lengths that are announced, but not there.
  EXPECT_FALSE(FromCbor(std::string_view("\xa1\x65parts\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 16), machine));
  EXPECT_FALSE(FromCbor(std::string_view("\xa1\x64name\x7b\x7f\xff\xff\xff\xff\xff\xff\xff", 15), machine));
}

}  // namespace
}  // namespace autotune
