#include "worker/engine/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace pipedream {

WeightStore::WeightStore(std::vector<DeviceBuffer> buffers)
    : buffers_(std::move(buffers)), slots_(buffers_.size()) {
  PIPEDREAM_CHECK(!buffers_.empty());
  slots_[0].version = WeightVersion(0);
}

int WeightStore::alive() const {
  return static_cast<int>(
      std::ranges::count_if(slots_, [](const Slot& s) { return s.version.value() >= 0; }));
}

int WeightStore::Find(WeightVersion version) const {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].version == version && version.value() >= 0) return static_cast<int>(i);
  return -1;
}

absl::StatusOr<ReadWeights> WeightStore::Read(WeightVersion version) const {
  int slot = Find(version);
  if (slot < 0)
    return Internal("weight version {} is not alive (the latest is {})", version, latest_);
  return ReadWeights{slots_[slot].version, buffers_[slot].data()};
}

absl::Status WeightStore::Pin(WeightVersion version) {
  int slot = Find(version);
  if (slot < 0)
    return Internal("weight version {} is not alive (the latest is {})", version, latest_);
  ++slots_[slot].pins;
  return absl::OkStatus();
}

void WeightStore::Unpin(WeightVersion version) {
  int slot = Find(version);
  PIPEDREAM_CHECK(slot >= 0 && slots_[slot].pins > 0);
  if (--slots_[slot].pins == 0 && version != latest_) slots_[slot].version = WeightVersion(-1);
}

absl::StatusOr<std::byte*> WeightStore::BeginUpdate() {
  PIPEDREAM_CHECK(update_slot_ < 0);
  if (slots_[slot_of_latest_].pins == 0) {
    update_slot_ = slot_of_latest_;
  } else {
    for (size_t i = 0; i < slots_.size() && update_slot_ < 0; ++i)
      if (Free(static_cast<int>(i))) update_slot_ = static_cast<int>(i);
    if (update_slot_ < 0)
      return ResourceExhausted("all {} weight versions are in use while version {} is made",
                               slots_.size(), latest_ + 1);
  }
  return buffers_[update_slot_].data();
}

WeightVersion WeightStore::Publish() {
  PIPEDREAM_CHECK(update_slot_ >= 0);
  ++latest_;
  slots_[update_slot_] = {latest_, 0};
  if (slot_of_latest_ != update_slot_ && slots_[slot_of_latest_].pins == 0)
    slots_[slot_of_latest_].version = WeightVersion(-1);
  slot_of_latest_ = std::exchange(update_slot_, -1);
  return latest_;
}

}  // namespace pipedream
