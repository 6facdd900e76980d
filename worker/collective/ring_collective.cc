#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "worker/collective/collective.h"
#include "worker/transport/failure.h"

namespace pipedream {
namespace {

// The data falls into size() segments of nearly equal length. In step k of 2 (size() - 1), a member
// sends a segment to the next one and receives the segment before it from the previous one, which
// it sends on in step k + 1. In the first half what arrives is added, in the second it replaces.
// So segment s is ((x_s + x_s+1) + x_s+2) + ..., whoever looks at it.
//
// A segment travels in chunks of at most one message, and a chunk goes on as soon as it has been
// added, without waiting for its segment.
class RingCollective : public Collective {
 public:
  RingCollective(int rank, int size, std::unique_ptr<SendChannel> to_next,
                 std::unique_ptr<ReceiveChannel> from_previous)
      : rank_(rank),
        size_(size),
        steps_(2 * (size - 1)),
        to_next_(std::move(to_next)),
        from_previous_(std::move(from_previous)) {}

  int size() const override { return size_; }
  absl::Status StartSum(std::span<float> data) override {
    return Start(reinterpret_cast<std::byte*>(data.data()), data.size(), sizeof(float));
  }
  absl::Status StartSum(std::span<double> data) override {
    return Start(reinterpret_cast<std::byte*>(data.data()), data.size(), sizeof(double));
  }

  absl::StatusOr<bool> Advance() override {
    if (failure_.state() != FailureCell::State::kOpen) return failure_.cause();
    if (!active_) return true;
    bool progress = true;
    while (progress) {
      progress = false;
      while (CanSend()) {
        PD_ASSIGN_OR_RETURN(bool sent, SendChunk());
        if (!sent) break;
        progress = true;
      }
      if (receive_.step < steps_) {
        PD_ASSIGN_OR_RETURN(bool received, ReceiveChunk());
        progress = progress || received;
      }
    }
    active_ = send_.step < steps_ || receive_.step < steps_;
    return !active_;
  }

  void Wait(Duration timeout) override;

  void Abort(const absl::Status& cause) override {
    failure_.Abort(cause);
    if (to_next_ != nullptr) to_next_->Abort(cause);
    if (from_previous_ != nullptr) from_previous_->Abort(cause);
  }

 private:
  // The next chunk of a direction; step == steps_ when all are done.
  struct Cursor {
    int step = 0;
    size_t first = 0;  // element within the segment
  };
  // What is received in a step lies one segment behind what is sent.
  enum Direction { kOut = 0, kIn = 1 };
  struct Range {
    size_t begin;
    size_t end;
  };

  absl::Status Start(std::byte* data, size_t length, size_t element_bytes) {
    if (failure_.state() != FailureCell::State::kOpen) return failure_.cause();
    if (active_) return Internal("a collective was started while another is in progress");
    size_t out_bytes = steps_ == 0 ? 0 : to_next_->max_message_bytes();
    size_t in_bytes = steps_ == 0 ? 0 : from_previous_->max_message_bytes();
    size_t slot_bytes = std::min(out_bytes, in_bytes);
    if (steps_ > 0 && length > 0 && slot_bytes < element_bytes) {
      return InvalidArgument("collective: slots of {} bytes hold no element of {} bytes",
                             slot_bytes, element_bytes);
    }
    data_ = data;
    length_ = length;
    element_bytes_ = element_bytes;
    chunk_elements_[kOut] = out_bytes / element_bytes;
    chunk_elements_[kIn] = in_bytes / element_bytes;
    active_ = true;
    send_ = receive_ = {};
    SkipEmpty(&send_, kOut);
    SkipEmpty(&receive_, kIn);
    return absl::OkStatus();
  }

  Range SegmentAt(int step, Direction direction) const {
    size_t members = static_cast<size_t>(size_);
    size_t segment = static_cast<size_t>(rank_ + 2 * size_ - step - direction) % members;
    size_t share = length_ / members;
    size_t longer = length_ % members;  // the first ones have an element more
    size_t begin = segment * share + std::min(segment, longer);
    return {begin, begin + share + (segment < longer ? 1 : 0)};
  }
  Range ChunkAt(const Cursor& cursor, Direction direction) const {
    Range segment = SegmentAt(cursor.step, direction);
    size_t begin = segment.begin + cursor.first;
    return {begin, std::min(begin + chunk_elements_[direction], segment.end)};
  }
  void SkipEmpty(Cursor* cursor, Direction direction) const {
    while (cursor->step < steps_) {
      Range segment = SegmentAt(cursor->step, direction);
      if (segment.begin + cursor->first < segment.end) return;
      *cursor = {cursor->step + 1, 0};
    }
  }
  void Pass(Cursor* cursor, Direction direction, Range chunk) const {
    cursor->first += chunk.end - chunk.begin;
    SkipEmpty(cursor, direction);
  }

  // What is sent in a step has been received in the one before, at the same place.
  bool CanSend() const {
    if (send_.step >= steps_) return false;
    if (send_.step == 0 || receive_.step >= send_.step) return true;
    size_t end = ChunkAt(send_, kOut).end - SegmentAt(send_.step, kOut).begin;
    return receive_.step == send_.step - 1 && receive_.first >= end;
  }

  absl::StatusOr<bool> SendChunk();
  absl::StatusOr<bool> ReceiveChunk();

  const int rank_;
  const int size_;
  const int steps_;
  std::unique_ptr<SendChannel> to_next_;
  std::unique_ptr<ReceiveChannel> from_previous_;
  FailureCell failure_;

  bool active_ = false;
  std::byte* data_ = nullptr;
  size_t length_ = 0;
  size_t element_bytes_ = sizeof(float);
  size_t chunk_elements_[2] = {0, 0};  // by Direction
  Cursor send_;
  Cursor receive_;
  int64_t sent_ = 0;  // chunks since the channels were opened
  int64_t received_ = 0;
};

template <typename T>
void AddTo(std::byte* sum, const std::byte* addend, size_t count) {
  T* to = reinterpret_cast<T*>(sum);
  const T* from = reinterpret_cast<const T*>(addend);
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

absl::StatusOr<bool> RingCollective::SendChunk() {
  PD_ASSIGN_OR_RETURN(std::optional<std::span<std::byte>> slot, to_next_->TryAcquire());
  if (!slot.has_value()) return false;
  Range chunk = ChunkAt(send_, kOut);
  size_t bytes = (chunk.end - chunk.begin) * element_bytes_;
  std::memcpy(slot->data(), data_ + chunk.begin * element_bytes_, bytes);
  PD_RETURN_IF_ERROR(to_next_->Commit({MessageKind::kCollective, sent_}, bytes));
  ++sent_;
  Pass(&send_, kOut, chunk);
  return true;
}

absl::StatusOr<bool> RingCollective::ReceiveChunk() {
  MessageKey key{MessageKind::kCollective, received_};
  PD_ASSIGN_OR_RETURN(std::optional<std::span<const std::byte>> message,
                      from_previous_->TryReceive(key));
  if (!message.has_value()) return false;
  Range chunk = ChunkAt(receive_, kIn);
  size_t count = chunk.end - chunk.begin;
  if (message->size() != count * element_bytes_) {
    return Internal(
        "{}: {} bytes came from the previous member, expected {}: the members do not "
        "sum the same number of elements",
        ToString(key), message->size(), count * element_bytes_);
  }
  std::byte* to = data_ + chunk.begin * element_bytes_;
  if (receive_.step >= steps_ / 2) {
    std::memcpy(to, message->data(), message->size());
  } else if (element_bytes_ == sizeof(float)) {
    AddTo<float>(to, message->data(), count);
  } else {
    AddTo<double>(to, message->data(), count);
  }
  from_previous_->Release();
  ++received_;
  Pass(&receive_, kIn, chunk);
  return true;
}

// A channel is waited for alone where only it can help. Where either can, they take turns: a wait
// covers one channel, and members that each wait for the wrong one would wait in a circle.
void RingCollective::Wait(Duration timeout) {
  constexpr Duration kTurn = std::chrono::microseconds(200);
  if (failure_.state() != FailureCell::State::kOpen) return;
  bool send = CanSend();
  bool receive = receive_.step < steps_;
  if (send && !receive) {
    to_next_->Wait(timeout);
  } else if (receive && !send) {
    from_previous_->Wait(timeout);
  } else if (send && receive) {
    Duration deadline = SystemClock()->Now() + std::min<Duration>(timeout, std::chrono::hours(1));
    for (Duration left = timeout; left > Duration::zero(); left = deadline - SystemClock()->Now()) {
      if (from_previous_->Wait(std::min(left, kTurn)) || to_next_->Wait(Duration::zero())) return;
    }
  }
}

}  // namespace

std::unique_ptr<Collective> MakeRingCollective(int rank, int size,
                                               std::unique_ptr<SendChannel> to_next,
                                               std::unique_ptr<ReceiveChannel> from_previous) {
  PIPEDREAM_CHECK(size >= 1 && rank >= 0 && rank < size);
  PIPEDREAM_CHECK(size == 1 || (to_next != nullptr && from_previous != nullptr));
  return std::make_unique<RingCollective>(rank, size, std::move(to_next), std::move(from_previous));
}

}  // namespace pipedream
