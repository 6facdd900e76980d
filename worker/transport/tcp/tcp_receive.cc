#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "worker/transport/failure.h"
#include "worker/transport/slot_ring.h"
#include "worker/transport/socket.h"
#include "worker/transport/tcp/frame.h"
#include "worker/transport/tcp/tcp_channel.h"
#include "worker/transport/wake.h"

namespace pipedream {
namespace {

class TcpReceive : public ReceiveChannel {
 public:
  TcpReceive(UniqueFd socket, std::shared_ptr<SlotRing> ring, Wake wake)
      : socket_(std::move(socket)),
        ring_(std::move(ring)),
        wake_(std::move(wake)),
        thread_([this] { Run(); }) {}

  ~TcpReceive() override {
    closing_.store(true, std::memory_order_release);
    wake_.Notify();
    thread_.join();
  }

  absl::StatusOr<std::optional<std::span<const std::byte>>> TryReceive(
      const MessageKey& key) override {
    return ring_->TryReceive(key);
  }
  std::optional<MessageKey> Peek() override { return ring_->Peek(); }
  void Release() override {
    ring_->Release();
    wake_.Notify();
  }
  bool Wait(Duration timeout) override { return ring_->WaitForMessage(timeout); }
  void Abort(const absl::Status& cause) override {
    if (ring_->Abort(cause)) wake_.Notify();
  }
  size_t max_message_bytes() const override { return ring_->max_message_bytes(); }

 private:
  // The rest is the thread's.
  void Run() {
    absl::Status end = Loop();
    if (!end.ok()) ring_->Close(end);
    if (ring_->failure().state() == FailureCell::State::kAborted && !told_by_peer_) {
      SendNow(socket_.get(), EncodeAbort(ring_->failure().cause())).IgnoreError();
    }
    shutdown(socket_.get(), SHUT_WR);
  }

  absl::Status Loop() {
    while (ring_->failure().state() == FailureCell::State::kOpen &&
           !closing_.load(std::memory_order_acquire)) {
      PD_ASSIGN_OR_RETURN(bool acks_left, SendAcks());
      short events = static_cast<short>(POLLIN | (acks_left ? POLLOUT : 0));
      pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {socket_.get(), events, 0}};
      int ready = poll(fds, 2, -1);
      if (ready < 0 && errno != EINTR) return Internal("poll: {}", std::strerror(errno));
      if (ready <= 0) continue;
      if (fds[0].revents != 0) wake_.Drain();
      if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      // Several reads per poll, but acknowledgements never wait long.
      constexpr int kReads = 8;
      bool more = true;
      for (int i = 0; i < kReads && more; ++i) {
        PD_ASSIGN_OR_RETURN(more, ReadSome());
      }
    }
    return absl::OkStatus();
  }

  // True if the socket does not take all of them now.
  absl::StatusOr<bool> SendAcks() {
    char acks[256];
    std::memset(acks, kAckByte, sizeof acks);
    uint64_t released = ring_->released();
    while (acked_ < released) {
      size_t count = std::min<uint64_t>(released - acked_, sizeof acks);
      ssize_t n = send(socket_.get(), acks, count, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return true;
      // The sender may have closed after its last message, which can still be on its way: what
      // remains to be read decides.
      if (n < 0) return false;
      acked_ += static_cast<uint64_t>(n);
    }
    return false;
  }

  // One read. False when there is nothing more to read now.
  absl::StatusOr<bool> ReadSome() {
    if (header_bytes_ < header_.size()) {
      PD_ASSIGN_OR_RETURN(size_t n,
                          Read(header_.data() + header_bytes_, header_.size() - header_bytes_));
      header_bytes_ += n;
      if (header_bytes_ < header_.size()) return n > 0;
      PD_RETURN_IF_ERROR(BeginFrame());
    } else {
      PD_ASSIGN_OR_RETURN(size_t n,
                          Read(payload_.data() + payload_bytes_, payload_.size() - payload_bytes_));
      if (n == 0) return false;
      payload_bytes_ += n;
    }
    if (payload_bytes_ == payload_.size()) PD_RETURN_IF_ERROR(EndFrame());
    return ring_->failure().state() == FailureCell::State::kOpen;
  }

  // 0 if nothing has come yet.
  absl::StatusOr<size_t> Read(void* to, size_t bytes) {
    ssize_t n = recv(socket_.get(), to, bytes, MSG_DONTWAIT);
    if (n > 0) return static_cast<size_t>(n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n < 0) return PeerGone(ring_->name(), std::strerror(errno));
    return PeerGone(ring_->name(), header_bytes_ > 0 ? "in the middle of a message" : "");
  }

  absl::Status BeginFrame() {
    auto frame = DecodeFrameHeader(header_, ring_->max_message_bytes());
    if (!frame.ok()) return Annotate(frame.status(), "channel " + ring_->name());
    frame_ = *frame;
    payload_bytes_ = 0;
    if (frame_.abort) {
      payload_ = std::as_writable_bytes(std::span(cause_)).first(frame_.bytes);
      return absl::OkStatus();
    }
    auto slot = ring_->TryAcquire();
    if (!slot.ok()) {
      // Aborted meanwhile; the loop ends. Nothing is read into an empty payload.
      payload_ = {};
      return absl::OkStatus();
    }
    if (!slot->has_value()) {
      return Unavailable("channel {}: the peer sent more messages than there are slots ({})",
                         ring_->name(), ring_->slots());
    }
    payload_ = (*slot)->first(frame_.bytes);
    return absl::OkStatus();
  }

  absl::Status EndFrame() {
    header_bytes_ = 0;
    if (!frame_.abort) {
      ring_->Commit(frame_.key, frame_.bytes).IgnoreError();  // fails only if aborted meanwhile
      return absl::OkStatus();
    }
    told_by_peer_ = true;
    ring_->Abort(AbortedByPeer({cause_, frame_.bytes}));
    return absl::OkStatus();
  }

  UniqueFd socket_;
  std::shared_ptr<SlotRing> ring_;
  Wake wake_;
  std::atomic<bool> closing_{false};
  // Of the thread.
  uint64_t acked_ = 0;
  FrameHeaderBytes header_{};
  size_t header_bytes_ = 0;  // read of the header; full while the payload is read
  FrameHeader frame_;
  std::span<std::byte> payload_;
  size_t payload_bytes_ = 0;
  char cause_[kMaxCauseBytes];
  bool told_by_peer_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReceiveChannel>> MakeTcpReceive(UniqueFd socket,
                                                               const std::string& name,
                                                               size_t slots,
                                                               size_t max_message_bytes) {
  PD_ASSIGN_OR_RETURN(auto ring, SlotRing::Create(name, slots, max_message_bytes));
  PD_ASSIGN_OR_RETURN(Wake wake, Wake::Create());
  return std::make_unique<TcpReceive>(std::move(socket), std::move(ring), std::move(wake));
}

}  // namespace pipedream
