// Trace text: every type of step prints and parses back; errors of parsing name the line.
#include "schedule/trace.h"

#include <gmock/gmock.h>

#include "support/rng.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Fills any field with a random value.
struct Filler {
  Rng& rng;
  Name RandomName() { return "name_" + std::to_string(rng.Below(1000)); }
  void Fill(Name& v) { v = RandomName(); }
  void Fill(int64_t& v) { v = rng.Below(1000) - 500; }
  void Fill(double& v) { v = rng.Below(2) ? rng.Normal() : static_cast<double>(rng.Below(100)); }
  void Fill(Scope& v) { v = static_cast<Scope>(rng.Below(4)); }
  void Fill(LoopKind& v) { v = static_cast<LoopKind>(static_cast<int>(LoopKind::kBlockX) + rng.Below(6)); }
  void Fill(IntArg& v) { v = rng.Below(2) ? IntArg(rng.Below(100) + 1) : IntArg(Name(RandomName().str() + ".2")); }
  void Fill(Factors& v) {
    if (rng.Below(3) == 0) return Fill(v.sampled);
    Fill(v.list);
    if (!v.list.empty() && rng.Below(2)) v.list[rng.Below(v.list.size())] = Factors::kAuto;
  }
  void Fill(DimTerm& v) {
    v.dim = rng.Below(9);
    if (rng.Below(2)) Fill(v.div);
    if (rng.Below(2)) Fill(v.mod);
  }
  void Fill(IndexMap& v) { Fill(v.dims); }
  void Fill(Results& v) { Fill(v.names); }
  void Fill(Decision& v) { Fill(v.values); }
  template <class T>
  void Fill(std::vector<T>& v) {
    v.resize(rng.Below(4));
    for (T& item : v) Fill(item);
  }
};

template <size_t I = 0>
void CheckEveryStep(Rng& rng) {
  if constexpr (I < std::variant_size_v<AnyStep>) {
    std::variant_alternative_t<I, AnyStep> step;
    ForEachField(step, [&](std::string_view, auto& value) { Filler{rng}.Fill(value); });
    std::string text = ToText(Step(step));
    auto parsed = ParseStep(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
    EXPECT_TRUE(Equal(*parsed, step)) << text << " became " << ToText(*parsed);
    EXPECT_EQ(ToText(*parsed), text);
    CheckEveryStep<I + 1>(rng);
  }
}

TEST(TraceText, EveryStepPrintsAndParses) {
  Rng rng(1);
  for (int i = 0; i < 200; ++i) CheckEveryStep(rng);
}

TEST(TraceText, ReadsWhatPeopleWrite) {
  auto trace = ParseTrace("# a comment\n\n  split( oc ,[ ?,2 , t.1 ])->a,b , c \r\nparallel(a)\n");
  ASSERT_TRUE(trace.ok()) << trace.error().Text();
  EXPECT_EQ(ToText(*trace), "split(oc, [?, 2, t.1]) -> a, b, c\nparallel(a)\n");
  EXPECT_EQ(ParseTrace("")->size(), 0u);
}

TEST(TraceText, RefusesByLine) {
  auto error = [](const std::string& text) {
    auto trace = ParseTrace(text);
    return trace.ok() ? "" : trace.error().Text();
  };
  EXPECT_THAT(error("parallel(a)\nparalel(b)"), HasSubstr("unknown step 'paralel'"));
  EXPECT_THAT(error("parallel(a)\nparalel(b)"), HasSubstr("line 2"));
  EXPECT_THAT(error("parallel"), HasSubstr("expected '('"));
  EXPECT_THAT(error("parallel()"), HasSubstr("expected a name at column 10"));
  EXPECT_THAT(error("parallel(a"), HasSubstr("expected ')'"));
  EXPECT_THAT(error("parallel(a, b)"), HasSubstr("expected ')'"));
  EXPECT_THAT(error("parallel(a) b"), HasSubstr("expected the end of the step"));
  EXPECT_THAT(error("split(a, [2, 0])"), HasSubstr("positive factor"));
  EXPECT_THAT(error("split(a, [2, -3])"), HasSubstr("positive factor"));
  EXPECT_THAT(error("split(a, [2, 99999999999999999999])"), HasSubstr("expected an integer"));
  EXPECT_THAT(error("split(a, [?, 2]) ->"), HasSubstr("expected a name"));
  EXPECT_THAT(error("set_scope(a, shred)"), HasSubstr("expected a scope"));
  EXPECT_THAT(error("bind(a, vectorized)"), HasSubstr("expected an axis, blockIdx.x to threadIdx.z, at column 9"));
  EXPECT_THAT(error("sample_tile(a, 3, max_inner=4, multiple_of=1)"), HasSubstr("expected 'n'"));
  EXPECT_THAT(error("transform_layout(a, [q], pad_value=0)"), HasSubstr("expected 'd'"));
  EXPECT_THAT(error("transform_layout(a, [d0], pad_value=nan)"), HasSubstr("expected a number"));
  EXPECT_THAT(error("transform_layout(a, [d0], pad_value=-nan)"), HasSubstr("expected a number"));
}

TEST(TraceText, HostileTextIsAnError) {
  Rng rng(3);
  const std::string base =
      "sample_tile(m, n=3, max_inner=14, multiple_of=1) -> m_t = [8, 14, 7]\nsplit(m, [?, m_t.1]) -> a, b\n"
      "transform_layout(w, [d3 // m_t.2, d0, d3 % 16], pad_value=0.5)\n";
  for (int i = 0; i < 3000; ++i) {
    std::string text = base;
    for (int64_t n = 1 + rng.Below(4); n-- > 0;) {
      size_t at = rng.Below(text.size());
      if (rng.Below(2)) {
        text[at] = static_cast<char>(rng.Below(256));
      } else {
        text.erase(at, 1 + rng.Below(9));
      }
      if (text.empty()) text = "x";
    }
    auto trace = ParseTrace(text);
    EXPECT_TRUE(!trace.ok() || ParseTrace(ToText(*trace)).ok()) << text;
  }
}

}  // namespace
}  // namespace autotune
