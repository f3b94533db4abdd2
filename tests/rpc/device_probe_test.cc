#include "rpc/device_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace autotune::rpc {
namespace {

using testing::HasSubstr;

// A device in the host's memory. Its copies to the host flip a bit if it is `broken`.
class MemoryDevice : public Device {
 public:
  explicit MemoryDevice(bool broken) : broken_(broken) {}
  DLDevice dl() const override { return {kDLCUDA, 0}; }
  DeviceLimits limits() const override { return {}; }
  Result<std::shared_ptr<void>> Allocate(int64_t bytes) override {
    return std::shared_ptr<void>(std::malloc(static_cast<size_t>(bytes)), std::free);
  }
  Status Zero(void* to, int64_t bytes) override { return Copy(to, std::string(bytes, '\0').data(), bytes); }
  Status CopyIn(void* to, const void* host, int64_t bytes) override { return Copy(to, host, bytes); }
  Status CopyWithin(void* to, const void* from, int64_t bytes) override { return Copy(to, from, bytes); }
  Status CopyOut(void* host, const void* from, int64_t bytes) override {
    TRY(Copy(host, from, bytes));
    if (broken_) static_cast<char*>(host)[bytes / 2] ^= 1;
    return {};
  }
  Result<std::shared_ptr<const DeviceImage>> LoadImage(std::string_view, std::string_view) override {
    return Err("no images");
  }
  Status Launch(const void*, const LaunchGeometry&, std::span<void* const>) override { return Err("no kernels"); }
  Result<Reading> Settle() override {
    ++settled;
    return Reading();
  }
  Status Synchronize() override { return {}; }
  Status LastError() const override { return {}; }

  int settled = 0;

 private:
  static Status Copy(void* to, const void* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }
  const bool broken_;
};

TEST(DeviceProbe, FindsWrongResults) {
  const auto good = std::make_shared<MemoryDevice>(false), broken = std::make_shared<MemoryDevice>(true);
  EXPECT_TRUE(ProbeDevice(good.get()).ok());
  EXPECT_EQ(good->settled, 1) << "the reference kernel of the clock runs";
  const Status found = ProbeDevice(broken.get());
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().Text(), HasSubstr("wrong results"));
}

TEST(DeviceProbe, PassesOnThisMachine) {
  EXPECT_TRUE(ProbeDevice(nullptr).ok());
  const Result<DevicePtr> opencl = OpenDevice({kDLOpenCL, 0});
  if (!opencl.ok()) GTEST_SKIP() << opencl.error().Text();
  const Status probed = ProbeDevice(opencl->get());
  EXPECT_TRUE(probed.ok()) << probed.error().Text();
}

}  // namespace
}  // namespace autotune::rpc
