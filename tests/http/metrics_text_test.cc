#include "http/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/http/metrics_parser.h"

namespace autotune::http {
namespace {

std::string FaultOf(const std::string& text) { return MetricsParser::Parse(text).fault; }

TEST(MetricsText, IsReadByAParserOfTheFormat) {
  MetricsText out;
  out.Begin("a_total", "counter", "Things\nwith a \\ and \"quotes\".");
  out.Add({{"key", "a\"b\\c\nd"}, {"x", "שלום"}}, 3);
  out.Add({{"key", ""}, {"x", ""}}, 1e300);
  out.Begin("b", "gauge", "");
  out.Add({}, -0.5);
  out.Begin("h", "histogram", "Waits.");
  out.Add({{"le", "1"}}, 2, "_bucket");
  out.Add({{"le", "+Inf"}}, 3, "_bucket");
  out.Add({}, 4.5, "_sum");
  out.Add({}, 3, "_count");
  const Metrics read = MetricsParser::Parse(out.text());
  EXPECT_EQ(read.fault, "") << out.text();
  EXPECT_EQ(read.samples.at("b"), -0.5);
  EXPECT_EQ(read.samples.at("a_total{key=\"a\\\"b\\\\c\\nd\",x=\"שלום\"}"), 3);
  EXPECT_EQ(read.samples.at("a_total{key=\"\",x=\"\"}"), 1e300);
}

TEST(MetricsText, TheParserNamesFaults) {
  const std::string gauge = "# HELP a Help.\n# TYPE a gauge\n";
  EXPECT_EQ(FaultOf(gauge + "a 1\n"), "");
  EXPECT_EQ(FaultOf(gauge + "a{b=\"c\"} +Inf\n"), "");
  for (const char* wrong :
       {"a 1", "a\n", "a x\n", "a 1 x\n", "b 1\n", "a{b=c} 1\n", "a{b=\"c} 1\n", "a{b=\"\\c\"} 1\n",
        "a{b=\"c\",b=\"d\"} 1\n", "a{1b=\"c\"} 1\n", "a 1\na 1\n", "a{b=\"c\"}1\n", "# TYPE a gauge\n"})
    EXPECT_NE(FaultOf(gauge + wrong), "") << wrong;
  EXPECT_NE(FaultOf("# TYPE a counter\na 1\n"), "") << "counters end with _total";
  EXPECT_NE(FaultOf("# TYPE a_total counter\na_total -1\n"), "");
  const std::string histogram = "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 1\n";
  EXPECT_EQ(FaultOf(histogram + "h_count 3\n"), "");
  EXPECT_NE(FaultOf(histogram + "h_count 4\n"), "");
  EXPECT_NE(FaultOf(histogram), "");
}

}  // namespace
}  // namespace autotune::http
