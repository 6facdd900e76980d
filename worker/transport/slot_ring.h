// A ring of equal slots in this process's memory between one producer and one consumer thread: the
// whole of a local channel, and either half of a tcp one.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/transport/channel.h"
#include "worker/transport/failure.h"

namespace pipedream {

// Slots are aligned for vector instructions and never share a cache line.
inline constexpr size_t kSlotAlignment = 64;
inline constexpr size_t kMaxSlots = 4096;

// kInvalidArgument unless 1 <= slots <= kMaxSlots and the whole fits an address space sensibly.
absl::Status CheckSlotSizes(const std::string& name, size_t slots, size_t max_message_bytes);
inline size_t SlotStride(size_t max_message_bytes) {
  return (max_message_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// Threads: producer functions on one thread at a time, consumer functions on one, the rest on any.
// Semantics of errors, keys and waits: SendChannel and ReceiveChannel.
class SlotRing {
 public:
  struct Message {
    MessageKey key;
    std::span<const std::byte> bytes;
  };

  // All memory is allocated here. kResourceExhausted if there is not enough.
  static absl::StatusOr<std::shared_ptr<SlotRing>> Create(const std::string& name, size_t slots,
                                                          size_t max_message_bytes);

  // Producer.
  absl::StatusOr<std::optional<std::span<std::byte>>> TryAcquire();
  absl::Status Commit(const MessageKey& key, size_t bytes);
  bool WaitForSlot(Duration timeout);

  // Consumer.
  absl::StatusOr<std::optional<std::span<const std::byte>>> TryReceive(const MessageKey& key);
  std::optional<MessageKey> Peek();
  void Release();
  bool WaitForMessage(Duration timeout);
  // Messages are numbered 0, 1, ... . REQUIRES: released() <= number < committed().
  Message At(uint64_t number) const;
  // Frees the slots of all messages below `number`. REQUIRES: as At, or number == committed().
  void ReleaseTo(uint64_t number);

  uint64_t committed() const;
  uint64_t released() const;
  size_t slots() const { return slot_count_; }
  size_t max_message_bytes() const { return max_message_bytes_; }
  const std::string& name() const { return name_; }

  // Return false if nothing changed.
  bool Close(const absl::Status& cause);
  bool Abort(const absl::Status& cause);
  const FailureCell& failure() const { return failure_; }

 private:
  struct Slot {
    MessageKey key;
    size_t bytes = 0;
  };
  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };

  SlotRing(const std::string& name, size_t slots, size_t max_message_bytes);
  std::byte* SlotMemory(uint64_t number) const {
    return memory_.get() + (number % slot_count_) * SlotStride(max_message_bytes_);
  }
  bool SlotReady() const PD_REQUIRES(mutex_);
  bool MessageReady() const PD_REQUIRES(mutex_);

  const std::string name_;
  const size_t slot_count_;
  const size_t max_message_bytes_;
  std::unique_ptr<std::byte[], FreeAligned> memory_;
  FailureCell failure_;

  mutable Mutex mutex_;
  CondVar slot_freed_;
  CondVar message_arrived_;
  std::vector<Slot> slots_ PD_GUARDED_BY(mutex_);
  uint64_t committed_ PD_GUARDED_BY(mutex_) = 0;
  uint64_t released_ PD_GUARDED_BY(mutex_) = 0;
  bool acquired_ PD_GUARDED_BY(mutex_) = false;
  bool held_ PD_GUARDED_BY(mutex_) = false;
};

// The errors that every backend gives in the same words.
absl::Status KeyMismatch(const std::string& channel, const MessageKey& found,
                         const MessageKey& expected);
absl::Status CommitWithoutAcquire(const std::string& channel, const MessageKey& key);
absl::Status MessageTooLarge(const std::string& channel, const MessageKey& key, size_t bytes,
                             size_t max_message_bytes);

}  // namespace pipedream
