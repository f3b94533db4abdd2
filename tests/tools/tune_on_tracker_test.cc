// `autotune tune --tracker` beside runs on this machine, with the same database, target and number of trials.
#include <gmock/gmock.h>

#include "tests/tools/farm.h"

namespace autotune {
namespace {

using test::CliResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TuneOnTracker : public test::FarmTest {
 protected:
  CliResult TuneHere() { return Run(local_); }
  CliResult TuneThere(const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = local_;
    command.insert(command.end(), {"--tracker", socket_, "--key", "pi"});
    command.insert(command.end(), more.begin(), more.end());
    return Run(command);
  }

  const std::string op_ = "conv2d:1,14,14,16;3,3,16,16;pad=1";
  const std::vector<std::string> local_ = {"--op", op_, "--trials", "4"};
};

// A device has its own run. Each of the two runs resumes by itself.
TEST_F(TuneOnTracker, MeasuresAfterARunOnThisMachine) {
  const auto measured = HasSubstr("\n4 trials in ");
  const auto resumed = HasSubstr("\n4 trials, all measured by earlier runs of this command");
  const CliResult here = TuneHere(), there = TuneThere();
  ASSERT_EQ(here.code, 0) << here.Text();
  ASSERT_EQ(there.code, 0) << there.Text();
  EXPECT_THAT(here.out, AllOf(measured, Not(resumed)));
  EXPECT_THAT(there.out, AllOf(measured, Not(resumed)));
  EXPECT_THAT(TuneThere().out, AllOf(resumed, Not(measured)));
  EXPECT_THAT(TuneHere().out, AllOf(resumed, Not(measured)));
}

}  // namespace
}  // namespace autotune
