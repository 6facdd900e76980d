#include "worker/engine/weight_store.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

class WeightStoreTest : public testing::Test {
 protected:
  WeightStore Make(int capacity) {
    std::vector<DeviceBuffer> buffers;
    for (int i = 0; i < capacity; ++i) buffers.push_back(*device_->Allocate(64, "a version"));
    return WeightStore(std::move(buffers));
  }
  std::unique_ptr<Device> device_ = MakeCpuDevice(1, 0);
};

TEST_F(WeightStoreTest, UpdatesInPlaceWhenNobodyReadsTheLatest) {
  WeightStore store = Make(1);
  std::byte* before = store.latest_data();
  ASSERT_OK_AND_ASSIGN(std::byte * target, store.BeginUpdate());
  EXPECT_EQ(target, before);
  EXPECT_EQ(store.Publish(), WeightVersion(1));
  EXPECT_THAT(store.Read(WeightVersion(0)),
              StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("version 0 is not alive")));
}

TEST_F(WeightStoreTest, KeepsAPinnedVersionUntilItsLastReaderIsDone) {
  WeightStore store = Make(2);
  std::byte* first = store.latest_data();
  ASSERT_OK(store.Pin(WeightVersion(0)));
  ASSERT_OK(store.Pin(WeightVersion(0)));
  ASSERT_OK_AND_ASSIGN(std::byte * target, store.BeginUpdate());
  EXPECT_NE(target, first);
  store.Publish();
  EXPECT_EQ(store.alive(), 2);
  ASSERT_OK_AND_ASSIGN(ReadWeights old, store.Read(WeightVersion(0)));
  EXPECT_EQ(old.data, first);
  EXPECT_EQ(old.version, WeightVersion(0));
  store.Unpin(WeightVersion(0));
  EXPECT_EQ(store.alive(), 2);
  store.Unpin(WeightVersion(0));
  EXPECT_EQ(store.alive(), 1);
}

TEST_F(WeightStoreTest, SaysWhenMoreVersionsAreAliveThanAnnounced) {
  WeightStore store = Make(1);
  ASSERT_OK(store.Pin(WeightVersion(0)));
  EXPECT_THAT(store.BeginUpdate(), StatusIs(absl::StatusCode::kResourceExhausted,
                                            testing::HasSubstr("all 1 weight versions")));
}

TEST_F(WeightStoreTest, RefusesToPinAVersionThatNeverWas) {
  WeightStore store = Make(2);
  EXPECT_THAT(store.Pin(WeightVersion(3)), StatusIs(absl::StatusCode::kInternal, testing::_));
}

}  // namespace
}  // namespace pipedream
