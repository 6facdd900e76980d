#include "worker/transport/shm/shm_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "worker/transport/failure.h"
#include "worker/transport/slot_ring.h"
#include "worker/transport/socket.h"

namespace pipedream {
namespace {

// What both ends share: the memory, the socket, and a thread that sleeps in poll until the peer
// aborts or dies.
class ShmEnd {
 public:
  ShmEnd(std::unique_ptr<ShmRegion> region, UniqueFd socket)
      : region_(std::move(region)), socket_(std::move(socket)), watcher_([this] { Watch(); }) {}

  ~ShmEnd() {
    closing_.store(true, std::memory_order_release);
    shutdown(socket_.get(), SHUT_RDWR);  // ends the watcher's poll, and tells the peer
    watcher_.join();
  }

  void Abort(const absl::Status& cause) {
    if (!failure_.Abort(cause)) return;
    // The peer may not be listening any more; it then learns from the hang-up.
    SendNow(socket_.get(), EncodeAbort(failure_.cause())).IgnoreError();
    WakeAll();
  }

  // Sleeps until `ready`, or `timeout`; `word` changes whenever `ready` may have.
  template <typename Ready>
  bool Wait(std::atomic<uint32_t>& word, Duration timeout, const Ready& ready) {
    constexpr Duration kLongest = std::chrono::hours(1);
    Duration deadline = SystemClock()->Now() + std::min(timeout, kLongest);
    while (true) {
      uint32_t seen = word.load(std::memory_order_acquire);
      if (ready()) return true;
      Duration left = deadline - SystemClock()->Now();
      if (left <= Duration::zero()) return false;
      FutexWait(word, seen, left);
    }
  }

  // The peer wrote numbers that cannot be.
  absl::Status Corrupt(std::string_view what, uint64_t found) {
    Abort(Internal("channel {}: the peer's shared memory is corrupt: {} is {}", region_->name(),
                   what, found));
    return failure_.cause();
  }

  ShmRegion& region() { return *region_; }
  ShmHeader& header() { return region_->header(); }
  FailureCell& failure() { return failure_; }

 private:
  void WakeAll() {
    FutexNotify(header().committed_sequence);
    FutexNotify(header().released_sequence);
  }

  void Watch() {
    ControlReader control;
    while (true) {
      pollfd p{socket_.get(), POLLIN, 0};
      if (poll(&p, 1, -1) < 0 && errno != EINTR) break;
      char buffer[256];
      ssize_t n = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (closing_.load(std::memory_order_acquire)) return;
      if (n <= 0) break;
      size_t acks = 0;
      absl::Status abort;
      absl::Status legible = control.Feed({buffer, static_cast<size_t>(n)}, &acks, &abort);
      if (!legible.ok() || acks > 0) break;
      if (!abort.ok()) {
        failure_.Abort(abort);
        WakeAll();
        return;
      }
    }
    failure_.Close(PeerGone(region_->name()));
    WakeAll();
  }

  std::unique_ptr<ShmRegion> region_;
  UniqueFd socket_;
  FailureCell failure_;
  std::atomic<bool> closing_{false};
  std::thread watcher_;  // last: it uses all of the above
};

class ShmSend : public SendChannel {
 public:
  ShmSend(std::unique_ptr<ShmRegion> region, UniqueFd socket)
      : end_(std::move(region), std::move(socket)) {}

  absl::StatusOr<std::optional<std::span<std::byte>>> TryAcquire() override {
    if (Failed()) return end_.failure().cause();
    uint64_t used = InFlight();
    if (used > end_.region().slots()) return end_.Corrupt("the number of messages in flight", used);
    if (used == end_.region().slots()) return std::nullopt;
    acquired_ = true;
    return std::span<std::byte>(end_.region().data(committed_), max_message_bytes());
  }

  absl::Status Commit(const MessageKey& key, size_t bytes) override {
    if (Failed()) return end_.failure().cause();
    const std::string& name = end_.region().name();
    if (!acquired_) return CommitWithoutAcquire(name, key);
    if (bytes > max_message_bytes()) return MessageTooLarge(name, key, bytes, max_message_bytes());
    end_.region().slot(committed_) = {key.index, bytes, static_cast<uint8_t>(key.kind)};
    acquired_ = false;
    ++committed_;
    end_.header().committed.store(committed_, std::memory_order_release);
    FutexNotify(end_.header().committed_sequence);
    return absl::OkStatus();
  }

  bool Wait(Duration timeout) override {
    return end_.Wait(end_.header().released_sequence, timeout,
                     [this] { return Failed() || InFlight() != end_.region().slots(); });
  }

  void Abort(const absl::Status& cause) override { end_.Abort(cause); }
  size_t max_message_bytes() const override { return max_message_bytes_; }

 private:
  bool Failed() { return end_.failure().state() != FailureCell::State::kOpen; }
  // Wraps to something huge if the peer claims to have released more than it was sent.
  uint64_t InFlight() {
    return committed_ - end_.header().released.load(std::memory_order_acquire);
  }

  ShmEnd end_;
  const size_t max_message_bytes_ = end_.region().max_message_bytes();
  uint64_t committed_ = 0;
  bool acquired_ = false;
};

class ShmReceive : public ReceiveChannel {
 public:
  ShmReceive(std::unique_ptr<ShmRegion> region, UniqueFd socket)
      : end_(std::move(region), std::move(socket)) {}

  absl::StatusOr<std::optional<std::span<const std::byte>>> TryReceive(
      const MessageKey& key) override {
    // The state first: what was committed before the peer went is then seen below.
    FailureCell::State state = end_.failure().state();
    if (state == FailureCell::State::kAborted) return end_.failure().cause();
    uint64_t arrived = Arrived();
    if (arrived > end_.region().slots()) return end_.Corrupt("the number of messages", arrived);
    if (arrived == 0) {
      if (state == FailureCell::State::kClosed) return end_.failure().cause();
      return std::nullopt;
    }
    ShmSlot slot = end_.region().slot(released_);  // copied: the peer could still write it
    if (slot.bytes > max_message_bytes_) return end_.Corrupt("a message's size", slot.bytes);
    MessageKey found{static_cast<MessageKind>(slot.kind), slot.index};
    if (found != key) return KeyMismatch(end_.region().name(), found, key);
    held_ = true;
    return std::span<const std::byte>(end_.region().data(released_), slot.bytes);
  }

  std::optional<MessageKey> Peek() override {
    if (Arrived() == 0) return std::nullopt;
    const ShmSlot slot = end_.region().slot(released_);
    return MessageKey{static_cast<MessageKind>(slot.kind), slot.index};
  }

  void Release() override {
    PIPEDREAM_CHECK(held_);
    held_ = false;
    ++released_;
    end_.header().released.store(released_, std::memory_order_release);
    FutexNotify(end_.header().released_sequence);
  }

  bool Wait(Duration timeout) override {
    return end_.Wait(end_.header().committed_sequence, timeout, [this] {
      return end_.failure().state() != FailureCell::State::kOpen || Arrived() != 0;
    });
  }

  void Abort(const absl::Status& cause) override { end_.Abort(cause); }
  size_t max_message_bytes() const override { return max_message_bytes_; }

 private:
  uint64_t Arrived() { return end_.header().committed.load(std::memory_order_acquire) - released_; }

  ShmEnd end_;
  const size_t max_message_bytes_ = end_.region().max_message_bytes();
  uint64_t released_ = 0;
  bool held_ = false;
};

}  // namespace

std::unique_ptr<SendChannel> MakeShmSend(std::unique_ptr<ShmRegion> region, UniqueFd socket) {
  region->CloseFile();
  return std::make_unique<ShmSend>(std::move(region), std::move(socket));
}

std::unique_ptr<ReceiveChannel> MakeShmReceive(std::unique_ptr<ShmRegion> region, UniqueFd socket) {
  region->CloseFile();
  return std::make_unique<ShmReceive>(std::move(region), std::move(socket));
}

}  // namespace pipedream
