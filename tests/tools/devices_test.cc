// `autotune devices` and `autotune doctor`.
#include <gmock/gmock.h>

#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using test::Soon;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Devices = test::CliTest;

TEST_F(Devices, OfThisMachineAndOfAFarm) {
  CliResult local = Run({"devices"});
  EXPECT_EQ(local.code, 0) << local.Text();
  EXPECT_THAT(local.out, AllOf(HasSubstr("this machine: "), HasSubstr("llvm -mtriple=")));
  auto json = Json::Parse(Run({"devices", "--json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_GE(*(*json)["cores"].As<int64_t>(), 1);

  UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::string socket = File("tracker");
  auto tracker = Subprocess::Spawn(
      {.argv = {test::kTools + "/rpc_tracker", "--host", socket, "--state", File("state")}, .fds = {{1, null.get()}}});
  auto server = Subprocess::Spawn({.argv = {test::kTools + "/rpc_server", "--tracker", socket, "--key", "pi"}});
  ASSERT_TRUE(tracker.ok() && server.ok());
  EXPECT_TRUE(Soon([&] { return Run({"devices", "--tracker", socket}).out.find("free") != std::string::npos; }, 20));
  CliResult farm = Run({"devices", "--tracker", socket});
  EXPECT_EQ(farm.code, 0) << farm.Text();
  EXPECT_THAT(farm.out, AllOf(HasSubstr("tracker: epoch"), HasSubstr("pi "), Not(HasSubstr("this machine"))));
  EXPECT_THAT(Run({"devices", "--tracker", socket, "--key", "other"}).out, HasSubstr("no devices"));
  CliResult nobody = Run({"devices", "--tracker", "10.0.0.1:9190"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(Lines(nobody.err), SizeIs(1)) << nobody.Text();
}

TEST_F(Devices, DoctorFindsThisMachineFit) {
  CliResult fit = Run({"doctor"});
  EXPECT_EQ(fit.code, 0) << fit.Text();
  for (const char* word :
       {"cores", "L1 ", "GFLOPS", "GB/s", "repeats of one loop", ": free", "MiB", "core dumps 0 bytes", "namespaces",
        "seccomp", "not there yet", "with a write-ahead log", "GB free"})
    EXPECT_THAT(fit.out, HasSubstr(word));
  EXPECT_THAT(fit.out, Not(HasSubstr("PROBLEM")));
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("doctor"))) << "left behind";
}

TEST_F(Devices, DoctorNamesWhatIsWrong) {
  Write("records.db", std::string(5000, 'x'));
  setenv("AUTOTUNE_LIBEXEC", folder_.c_str(), 1);
  std::filesystem::permissions(Write("rpc_server", "#!/bin/sh\nexit 42\n"), std::filesystem::perms::owner_all);
  setenv("AUTOTUNE_HOST_LOCK", "/no/such/lock", 1);
  CliResult sick = Run({"doctor"});
  EXPECT_EQ(sick.code, 1) << sick.Text();
  EXPECT_THAT(sick.out, AllOf(HasSubstr("PROBLEM: " + db_ + " is not a record database"),
                              HasSubstr("speed      PROBLEM: "), HasSubstr("cannot open the host lock /no/such/lock"),
                              HasSubstr("runner     PROBLEM: "), HasSubstr("exited with code 42")));
  EXPECT_THAT(sick.err, HasSubstr("3 problems found"));
}

}  // namespace
}  // namespace autotune
