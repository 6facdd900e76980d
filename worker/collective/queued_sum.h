// Sums over the members of a collective that run while the stage computes: begun in the order of
// their numbers, one after the other on the wire, looked up by number when they are needed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/collective/collective.h"

namespace pipedream {

// Threads: the executor only.
template <typename T>
class QueuedSum {
 public:
  // At most `capacity` sums are begun and not released. `collective` is null for a single member.
  // Allocates everything here.
  QueuedSum(Collective* collective, size_t values, int capacity)
      : collective_(collective), slots_(capacity) {
    for (Slot& slot : slots_) slot.values.resize(values);
  }

  // This member's contribution to sum `number`, zeroed, to be filled before Start.
  // kResourceExhausted if the capacity is used up. REQUIRES: the sums before it were started.
  absl::StatusOr<std::span<T>> Begin(int64_t number) {
    for (Slot& slot : slots_) {
      if (slot.number >= 0) continue;
      slot.number = number;
      slot.complete = false;
      slot.values.assign(slot.values.size(), T{});
      return std::span<T>(slot.values);
    }
    return ResourceExhausted("sum {} is begun while {} others are in use", number, slots_.size());
  }
  // The contribution to sum `number` is there.
  absl::Status Start(int64_t number) {
    Slot* slot = Find(number);
    PIPEDREAM_CHECK(slot != nullptr);
    if (collective_ == nullptr) {
      slot->complete = true;
      return absl::OkStatus();
    }
    ++waiting_;
    if (active_ < 0) active_ = number;
    return StartActive();
  }

  // Moves on without blocking. Call it often: members wait for each other.
  absl::Status Advance() {
    while (active_ >= 0) {
      PD_ASSIGN_OR_RETURN(bool done, collective_->Advance());
      if (!done) return absl::OkStatus();
      Find(active_)->complete = true;
      running_ = false;
      --waiting_;
      active_ = waiting_ > 0 ? active_ + 1 : -1;
      PD_RETURN_IF_ERROR(StartActive());
    }
    return absl::OkStatus();
  }

  // The sum, in place; empty while it is not complete, or not begun. Valid until Release.
  std::span<T> Result(int64_t number) {
    Slot* slot = Find(number);
    return slot != nullptr && slot->complete ? std::span<T>(slot->values) : std::span<T>();
  }
  // Sums up to `number` are not needed any more.
  void Release(int64_t number) {
    for (Slot& slot : slots_) {
      if (slot.number <= number && slot.complete) slot.number = -1;
    }
  }
  // Whether a sum has been started and is not complete.
  bool pending() const { return active_ >= 0; }
  // To wait on while a sum is not complete; null for a single member.
  Collective* collective() const { return collective_; }

 private:
  struct Slot {
    int64_t number = -1;  // -1: free
    bool complete = false;
    std::vector<T> values;
  };

  Slot* Find(int64_t number) {
    for (Slot& slot : slots_) {
      if (slot.number == number) return &slot;
    }
    return nullptr;
  }
  absl::Status StartActive() {
    if (active_ < 0 || running_) return absl::OkStatus();
    running_ = true;
    return collective_->StartSum(std::span<T>(Find(active_)->values));
  }

  Collective* const collective_;
  std::vector<Slot> slots_;
  int64_t active_ = -1;   // the sum on the wire
  bool running_ = false;  // it was started
  int waiting_ = 0;       // started and not complete, the active one included
};

}  // namespace pipedream
