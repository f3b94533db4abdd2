#include "support/cpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace autotune {
namespace {

class Cpus : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double Quota() const { return CpuQuota(root_); }

  std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) / ("autotune-cpus-" + std::to_string(getpid()));
};

TEST_F(Cpus, TheLeastQuotaAlongThePathCounts) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(Quota()));
  Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota(), 1.5);
  Write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(Quota(), 0.5);
}

TEST_F(Cpus, ContainersSeeTheirGroupAsTheRoot) {
  Write("proc/self/cgroup", "0::/system.slice/docker-123.scope\n");
  Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Quota(), 2);
}

TEST_F(Cpus, GroupsOfTheFirstVersion) {
  Write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/x\n3:cpuset:/\n");
  Write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(Quota()));
  Write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(Quota(), 3);
}

TEST_F(Cpus, NothingThereIsNoQuota) {
  EXPECT_TRUE(std::isinf(Quota()));
  Write("proc/self/cgroup", "nonsense\n0::\n:::\n");
  Write("sys/fs/cgroup/cpu.max", "a b\n");
  EXPECT_TRUE(std::isinf(Quota()));
}

TEST(CheckThreads, RefusesMoreThanTheMachinesLimit) {
  EXPECT_GE(MostThreads(), AvailableCpus());
  for (int threads : {0, 1, AvailableCpus(), MostThreads()}) EXPECT_TRUE(CheckThreads(threads).ok()) << threads;
  for (int64_t threads : {int64_t{MostThreads()} + 1, int64_t{1} << 40}) {
    const Status status = CheckThreads(threads);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().Text().find("at most " + std::to_string(MostThreads())), std::string::npos);
  }
}

TEST(AvailableCpus, NoMoreThanAllowed) {
  EXPECT_GE(AvailableCpus(), 1);
  EXPECT_LE(AvailableCpus(), static_cast<int>(AllowedCpus().size()));
}

}  // namespace
}  // namespace autotune
