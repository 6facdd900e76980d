#include "worker/engine/device_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

class DeviceSpeedTest : public testing::Test {
 protected:
  DeviceSpeedTest() { backend_->SetThreads(1); }
  std::unique_ptr<KernelBackend> backend_ = MakeOneDnnBackend();
  std::unique_ptr<Device> device_ = MakeCpuDevice(1, 0);
  SpeedOptions options_{.window_s = 0.01, .long_window_s = 0.01};
};

TEST_F(DeviceSpeedTest, IsANumberOfOperationsAndKeepsNoMemory) {
  const absl::StatusOr<double> speed = MeasureSpeed(*backend_, device_.get(), options_);
  ASSERT_OK(speed.status());
  EXPECT_GT(*speed, 1e6);
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(DeviceSpeedTest, SeesTheSlowdown) {
  const absl::StatusOr<double> full = MeasureSpeed(*backend_, device_.get(), options_);
  options_.slowdown = 50;
  const absl::StatusOr<double> slow = MeasureSpeed(*backend_, device_.get(), options_);
  ASSERT_OK(full.status());
  ASSERT_OK(slow.status());
  EXPECT_LT(*slow, *full / 5);
}

TEST_F(DeviceSpeedTest, StopsWhenCancelled) {
  options_.cancelled = [] { return true; };
  EXPECT_THAT(MeasureSpeed(*backend_, device_.get(), options_),
              StatusIs(absl::StatusCode::kCancelled, testing::HasSubstr("cancelled")));
}

TEST_F(DeviceSpeedTest, SaysWhenThereIsNoMemory) {
  device_ = MakeCpuDevice(1, 100);
  EXPECT_THAT(MeasureSpeed(*backend_, device_.get(), options_),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("speed")));
}

}  // namespace
}  // namespace pipedream
