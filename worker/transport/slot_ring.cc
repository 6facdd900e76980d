#include "worker/transport/slot_ring.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr size_t kMaxRingBytes = size_t{1} << 44;
// Longer waits are the caller's loop; keeps sums of times far from overflow.
constexpr Duration kLongestWait = std::chrono::hours(1);

}  // namespace

absl::Status CheckSlotSizes(const std::string& name, size_t slots, size_t max_message_bytes) {
  if (slots < 1 || slots > kMaxSlots) {
    return InvalidArgument("channel {}: {} slots; expected 1 to {}", name, slots, kMaxSlots);
  }
  if (max_message_bytes > kMaxRingBytes / slots - kSlotAlignment) {
    return InvalidArgument("channel {}: {} slots of {} bytes are more than {} bytes", name, slots,
                           max_message_bytes, kMaxRingBytes);
  }
  return absl::OkStatus();
}

absl::Status KeyMismatch(const std::string& channel, const MessageKey& found,
                         const MessageKey& expected) {
  return Internal(
      "channel {}: the next message is {} but the receiver expects {}: sender and receiver follow "
      "different schedules",
      channel, ToString(found), ToString(expected));
}

absl::Status CommitWithoutAcquire(const std::string& channel, const MessageKey& key) {
  return Internal("channel {}: {} committed without an acquired slot", channel, ToString(key));
}

absl::Status MessageTooLarge(const std::string& channel, const MessageKey& key, size_t bytes,
                             size_t max_message_bytes) {
  return Internal("channel {}: {} has {} bytes but a slot holds {}", channel, ToString(key), bytes,
                  max_message_bytes);
}

void SlotRing::FreeAligned::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t(kSlotAlignment));
}

SlotRing::SlotRing(const std::string& name, size_t slots, size_t max_message_bytes)
    : name_(name), slot_count_(slots), max_message_bytes_(max_message_bytes), slots_(slots) {}

absl::StatusOr<std::shared_ptr<SlotRing>> SlotRing::Create(const std::string& name, size_t slots,
                                                           size_t max_message_bytes) {
  PD_RETURN_IF_ERROR(CheckSlotSizes(name, slots, max_message_bytes));
  std::shared_ptr<SlotRing> ring(new SlotRing(name, slots, max_message_bytes));
  size_t total = std::max(slots * SlotStride(max_message_bytes), kSlotAlignment);
  void* memory = ::operator new[](total, std::align_val_t(kSlotAlignment), std::nothrow);
  if (memory == nullptr) {
    return ResourceExhausted("channel {}: no memory for {} slots of {} bytes", name, slots,
                             max_message_bytes);
  }
  ring->memory_.reset(static_cast<std::byte*>(memory));
  return ring;
}

bool SlotRing::SlotReady() const {
  return failure_.state() != FailureCell::State::kOpen || committed_ - released_ < slot_count_;
}

bool SlotRing::MessageReady() const {
  return failure_.state() != FailureCell::State::kOpen || committed_ > released_;
}

absl::StatusOr<std::optional<std::span<std::byte>>> SlotRing::TryAcquire() {
  MutexLock lock(mutex_);
  if (failure_.state() != FailureCell::State::kOpen) return failure_.cause();
  if (committed_ - released_ == slot_count_) return std::nullopt;
  acquired_ = true;
  return std::span<std::byte>(SlotMemory(committed_), max_message_bytes_);
}

absl::Status SlotRing::Commit(const MessageKey& key, size_t bytes) {
  MutexLock lock(mutex_);
  if (failure_.state() != FailureCell::State::kOpen) return failure_.cause();
  if (!acquired_) return CommitWithoutAcquire(name_, key);
  if (bytes > max_message_bytes_) return MessageTooLarge(name_, key, bytes, max_message_bytes_);
  slots_[committed_ % slot_count_] = {key, bytes};
  ++committed_;
  acquired_ = false;
  message_arrived_.NotifyAll();
  return absl::OkStatus();
}

bool SlotRing::WaitForSlot(Duration timeout) {
  Duration deadline = SystemClock()->Now() + std::min(timeout, kLongestWait);
  MutexLock lock(mutex_);
  while (!SlotReady()) {
    Duration left = deadline - SystemClock()->Now();
    if (left <= Duration::zero()) return false;
    slot_freed_.WaitFor(mutex_, left);
  }
  return true;
}

absl::StatusOr<std::optional<std::span<const std::byte>>> SlotRing::TryReceive(
    const MessageKey& key) {
  MutexLock lock(mutex_);
  if (failure_.state() == FailureCell::State::kAborted) return failure_.cause();
  if (committed_ == released_) {
    if (failure_.state() == FailureCell::State::kClosed) return failure_.cause();
    return std::nullopt;
  }
  const Slot& slot = slots_[released_ % slot_count_];
  if (slot.key != key) return KeyMismatch(name_, slot.key, key);
  held_ = true;
  return std::span<const std::byte>(SlotMemory(released_), slot.bytes);
}

std::optional<MessageKey> SlotRing::Peek() {
  MutexLock lock(mutex_);
  if (committed_ == released_) return std::nullopt;
  return slots_[released_ % slot_count_].key;
}

void SlotRing::Release() {
  MutexLock lock(mutex_);
  PIPEDREAM_CHECK(held_);
  held_ = false;
  ++released_;
  slot_freed_.NotifyAll();
}

bool SlotRing::WaitForMessage(Duration timeout) {
  Duration deadline = SystemClock()->Now() + std::min(timeout, kLongestWait);
  MutexLock lock(mutex_);
  while (!MessageReady()) {
    Duration left = deadline - SystemClock()->Now();
    if (left <= Duration::zero()) return false;
    message_arrived_.WaitFor(mutex_, left);
  }
  return true;
}

SlotRing::Message SlotRing::At(uint64_t number) const {
  MutexLock lock(mutex_);
  PIPEDREAM_CHECK(number >= released_ && number < committed_);
  const Slot& slot = slots_[number % slot_count_];
  return {slot.key, {SlotMemory(number), slot.bytes}};
}

void SlotRing::ReleaseTo(uint64_t number) {
  MutexLock lock(mutex_);
  PIPEDREAM_CHECK(number >= released_ && number <= committed_);
  released_ = number;
  slot_freed_.NotifyAll();
}

uint64_t SlotRing::committed() const {
  MutexLock lock(mutex_);
  return committed_;
}

uint64_t SlotRing::released() const {
  MutexLock lock(mutex_);
  return released_;
}

// The state changes under the mutex, so that no waiter misses it between its look and its sleep.
bool SlotRing::Close(const absl::Status& cause) {
  MutexLock lock(mutex_);
  bool changed = failure_.Close(cause);
  slot_freed_.NotifyAll();
  message_arrived_.NotifyAll();
  return changed;
}

bool SlotRing::Abort(const absl::Status& cause) {
  MutexLock lock(mutex_);
  bool changed = failure_.Abort(cause);
  slot_freed_.NotifyAll();
  message_arrived_.NotifyAll();
  return changed;
}

}  // namespace pipedream
