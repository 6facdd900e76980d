// Parameter versions of one stage replica. Versions are immutable and numbered 0, 1, 2 ...; the
// highest is `latest`. A version lives while it is the latest or pinned; at most `capacity` live at
// once (the StageProgram says how many). Each is one flat buffer, laid out by the StageLayout.
//
// Threads: the stage's executor only.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <vector>

#include "common/base/strong_int.h"
#include "worker/device/device.h"

namespace pipedream {

// A version as a program reads it.
struct ReadWeights {
  WeightVersion version;
  std::byte* data = nullptr;
};

class WeightStore {
 public:
  // Version 0 is what `buffers[0]` holds. REQUIRES: not empty, equal sizes.
  explicit WeightStore(std::vector<DeviceBuffer> buffers);

  WeightVersion latest() const { return latest_; }
  int alive() const;
  std::byte* latest_data() const { return buffers_[slot_of_latest_].data(); }

  // Memory of `version`, and which one lies there; kInternal if it never was or is gone (rule V4).
  absl::StatusOr<ReadWeights> Read(WeightVersion version) const;
  // Keeps `version` alive until as many Unpins. Same error.
  absl::Status Pin(WeightVersion version);
  void Unpin(WeightVersion version);
  // Where version latest + 1 is to be written: the latest's own memory if nobody pins it, else a
  // free buffer. kResourceExhausted if there is none: more versions are alive than the table said.
  absl::StatusOr<std::byte*> BeginUpdate();
  // Makes what BeginUpdate gave the latest version. REQUIRES: an update is open.
  WeightVersion Publish();

 private:
  struct Slot {
    WeightVersion version{-1};
    int pins = 0;
  };
  int Find(WeightVersion version) const;
  bool Free(int slot) const { return slots_[slot].version.value() < 0; }

  std::vector<DeviceBuffer> buffers_;
  std::vector<Slot> slots_;
  WeightVersion latest_{0};
  int slot_of_latest_ = 0;
  int update_slot_ = -1;
};

}  // namespace pipedream
