#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

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
#include "worker/transport/tcp/rate_meter.h"
#include "worker/transport/tcp/tcp_channel.h"
#include "worker/transport/wake.h"

namespace pipedream {
namespace {

// How long the destructor waits for a peer that takes nothing.
constexpr Duration kLinger = std::chrono::seconds(5);

class TcpSend : public SendChannel {
 public:
  TcpSend(UniqueFd socket, std::shared_ptr<SlotRing> ring, Wake wake)
      : socket_(std::move(socket)),
        ring_(std::move(ring)),
        wake_(std::move(wake)),
        thread_([this] { Run(); }) {}

  ~TcpSend() override {
    closing_.store(true, std::memory_order_release);
    wake_.Notify();
    thread_.join();
  }

  absl::StatusOr<std::optional<std::span<std::byte>>> TryAcquire() override {
    return ring_->TryAcquire();
  }
  absl::Status Commit(const MessageKey& key, size_t bytes) override {
    PD_RETURN_IF_ERROR(ring_->Commit(key, bytes));
    wake_.Notify();
    return absl::OkStatus();
  }
  bool Wait(Duration timeout) override { return ring_->WaitForSlot(timeout); }
  void Abort(const absl::Status& cause) override {
    if (ring_->Abort(cause)) wake_.Notify();
  }
  size_t max_message_bytes() const override { return ring_->max_message_bytes(); }
  double bytes_per_s() const override { return rate_.load(std::memory_order_relaxed); }

 private:
  // The rest is the thread's.
  void Run() {
    absl::Status end = Loop();
    if (!end.ok()) ring_->Close(end);
    if (ring_->failure().state() == FailureCell::State::kAborted && !told_by_peer_) TellAbort();
    shutdown(socket_.get(), SHUT_WR);
    DropUnread();
  }

  // Until the channel fails, is aborted (OK) or was closed with everything delivered (OK).
  absl::Status Loop() {
    Duration last_progress{};  // counts once closing
    bool was_closing = false;
    bool shut = false;
    while (ring_->failure().state() == FailureCell::State::kOpen) {
      // In this order: whatever was committed before closing is seen.
      bool closing = closing_.load(std::memory_order_acquire);
      bool output = sent_ < ring_->committed();
      if (closing && !was_closing) last_progress = SystemClock()->Now();
      was_closing = closing;
      if (closing && !output && !shut) {
        shutdown(socket_.get(), SHUT_WR);
        shut = true;  // the peer reads to the end, then hangs up
      }
      short events = static_cast<short>(POLLIN | (output ? POLLOUT : 0));
      pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {socket_.get(), events, 0}};
      int timeout = closing ? PollTimeoutMs(last_progress + kLinger) : -1;
      int ready = poll(fds, 2, timeout);
      if (ready < 0 && errno != EINTR) return Internal("poll: {}", std::strerror(errno));
      if (ready == 0 && closing) return absl::OkStatus();
      if (ready <= 0) continue;
      if (fds[0].revents != 0) wake_.Drain();
      if (fds[1].revents != 0) last_progress = SystemClock()->Now();
      if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) PD_RETURN_IF_ERROR(ReadControl());
      if ((fds[1].revents & POLLOUT) != 0) PD_RETURN_IF_ERROR(SendSome());
    }
    return absl::OkStatus();
  }

  absl::Status ReadControl() {
    char buffer[512];
    ssize_t n = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
    if (n < 0) return PeerGone(ring_->name(), std::strerror(errno));
    if (n == 0) return PeerGone(ring_->name());
    size_t acks = 0;
    absl::Status abort;
    absl::Status legible = control_.Feed({buffer, static_cast<size_t>(n)}, &acks, &abort);
    if (!legible.ok()) return Annotate(legible, "channel " + ring_->name());
    uint64_t released = ring_->released();
    if (acks > sent_ - released) {
      return Unavailable("channel {}: the peer released {} messages but holds {}", ring_->name(),
                         acks, sent_ - released);
    }
    if (acks > 0) ring_->ReleaseTo(released + acks);
    if (!abort.ok()) {
      told_by_peer_ = true;
      ring_->Abort(abort);
    }
    return absl::OkStatus();
  }

  absl::Status SendSome() {
    SlotRing::Message message = ring_->At(sent_);
    if (offset_ == 0) header_ = EncodeFrameHeader({message.key, false, message.bytes.size()});
    iovec io[2];
    int parts = 0;
    size_t skip = offset_;
    if (skip < header_.size()) {
      io[parts++] = {header_.data() + skip, header_.size() - skip};
      skip = 0;
    } else {
      skip -= header_.size();
    }
    if (skip < message.bytes.size()) {
      io[parts++] = {const_cast<std::byte*>(message.bytes.data()) + skip,
                     message.bytes.size() - skip};
    }
    msghdr out{};
    out.msg_iov = io;
    out.msg_iovlen = static_cast<size_t>(parts);
    ssize_t n = sendmsg(socket_.get(), &out, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
    if (n < 0) return PeerGone(ring_->name(), std::strerror(errno));
    offset_ += static_cast<size_t>(n);
    if (offset_ == header_.size() + message.bytes.size()) {
      offset_ = 0;
      ++sent_;
      rate_.store(meter_.Read(socket_.get()), std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

  // Only between frames; inside one, the hang-up has to do.
  void TellAbort() {
    if (offset_ != 0) return;
    std::string cause = EncodeCause(ring_->failure().cause());
    FrameHeaderBytes header = EncodeFrameHeader({{}, true, cause.size()});
    SendNow(socket_.get(), std::string(header.data(), header.size()) + cause).IgnoreError();
  }

  // Closing a socket with unread bytes would destroy what the peer has not read yet.
  void DropUnread() {
    char buffer[512];
    while (recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
    }
  }

  UniqueFd socket_;
  std::shared_ptr<SlotRing> ring_;
  Wake wake_;
  std::atomic<bool> closing_{false};
  std::atomic<double> rate_{0};
  // Of the thread.
  uint64_t sent_ = 0;  // messages sent whole
  size_t offset_ = 0;  // bytes sent of the next one, header included
  FrameHeaderBytes header_{};
  ControlReader control_;
  RateMeter meter_;
  bool told_by_peer_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<SendChannel>> MakeTcpSend(UniqueFd socket, const std::string& name,
                                                         size_t slots, size_t max_message_bytes) {
  PD_ASSIGN_OR_RETURN(auto ring, SlotRing::Create(name, slots, max_message_bytes));
  PD_ASSIGN_OR_RETURN(Wake wake, Wake::Create());
  return std::make_unique<TcpSend>(std::move(socket), std::move(ring), std::move(wake));
}

}  // namespace pipedream
