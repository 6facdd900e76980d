#include "worker/transport/acceptor.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "worker/transport/handshake.h"
#include "worker/transport/socket.h"

namespace pipedream {
namespace {
constexpr Duration kSweepInterval = std::chrono::seconds(1);
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
}  // namespace

Acceptor::Acceptor(UniqueFd tcp, UniqueFd unix_socket, std::shared_ptr<Rendezvous> rendezvous,
                   Wake stop)
    : tcp_(std::move(tcp)),
      unix_socket_(std::move(unix_socket)),
      rendezvous_(std::move(rendezvous)),
      stop_(std::move(stop)),
      thread_([this] { Run(); }) {}

Acceptor::~Acceptor() {
  stop_.Notify();
  thread_.join();
}

Duration Acceptor::AcceptsFrom() const {
  if (strangers_.size() < kMaxStrangers) return paused_until_;
  return std::max(paused_until_, strangers_.front().since + kHelloGrace);
}

Duration Acceptor::NextDeadline(Duration now) {
  Duration next = now + std::chrono::hours(1);
  if (!strangers_.empty()) next = strangers_.front().since + kHelloTimeout;
  if (AcceptsFrom() > now) next = std::min(next, AcceptsFrom());
  if (now >= next_sweep_ && rendezvous_->Sweep()) next_sweep_ = now + kSweepInterval;
  if (next_sweep_ > now) next = std::min(next, next_sweep_);
  return next;
}

void Acceptor::Run() {
  std::vector<pollfd> fds;
  while (true) {
    Duration now = SystemClock()->Now();
    strangers_.remove_if([now](const Stranger& s) { return now >= s.since + kHelloTimeout; });
    Duration next = NextDeadline(now);
    short accept_events = AcceptsFrom() > now ? 0 : POLLIN;
    fds.clear();
    fds.push_back({stop_.fd(), POLLIN, 0});
    fds.push_back({tcp_.get(), accept_events, 0});
    fds.push_back({unix_socket_.get(), accept_events, 0});  // poll ignores an invalid one
    for (const Stranger& s : strangers_) fds.push_back({s.fd.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), PollTimeoutMs(next)) < 0 && errno != EINTR) {
      LogError("data port: poll: {}", std::strerror(errno));
      return;
    }
    if (fds[0].revents != 0) return;
    size_t i = 3;
    for (auto it = strangers_.begin(); it != strangers_.end(); ++i) {
      it = fds[i].revents == 0 || Hear(&*it) ? std::next(it) : strangers_.erase(it);
    }
    if (fds[1].revents != 0) AcceptAll(tcp_.get(), TransportKind::kTcp);
    if (fds[2].revents != 0) AcceptAll(unix_socket_.get(), TransportKind::kShm);
  }
}

void Acceptor::AcceptAll(int listener, TransportKind kind) {
  // At most as many as are heard at a time; the rest waits in the kernel for the next round.
  for (size_t i = 0; i < kMaxStrangers; ++i) {
    Duration now = SystemClock()->Now();
    if (AcceptsFrom() > now) return;
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      bool transient = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      if (transient) return;
      LogWarning("data port: accept: {}", std::strerror(errno));
      paused_until_ = now + kAcceptPause;
      return;
    }
    if (kind == TransportKind::kTcp) TuneTcp(fd.get());
    if (strangers_.size() >= kMaxStrangers) strangers_.pop_front();
    strangers_.push_back({std::move(fd), kind, {}, now});
    // Most have spoken already.
    if (!Hear(&strangers_.back())) strangers_.pop_back();
  }
}

bool Acceptor::Hear(Stranger* stranger) {
  // Reads no further than the hello, and only as much as its own size asks for.
  auto refuse = [&](const absl::Status& why) {
    LogDebug("data port: refused a connection: {}", why.ToString());
    if (!absl::IsInvalidArgument(why)) {
      SendNow(stranger->fd.get(), EncodeReply(why)).IgnoreError();
    }
    return false;
  };
  constexpr size_t kFirst = 8;
  while (true) {
    absl::StatusOr<size_t> whole = HelloBytes(stranger->said);
    if (!whole.ok()) return refuse(whole.status());
    if (*whole > 0 && stranger->said.size() >= *whole) break;
    char buffer[kMaxHelloBytes];
    size_t want = std::max(*whole, kFirst) - stranger->said.size();
    ssize_t n = recv(stranger->fd.get(), buffer, std::min(want, sizeof buffer), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    stranger->said.append(buffer, static_cast<size_t>(n));
  }
  absl::StatusOr<Hello> hello = DecodeHello(stranger->said);
  if (!hello.ok()) return refuse(hello.status());
  if (hello->kind != stranger->kind) return refuse(InvalidArgument("wrong socket"));
  Offer offer;
  offer.expires = SystemClock()->Now() + hello->options.timeout;
  offer.hello = *std::move(hello);
  offer.socket = std::move(stranger->fd);
  rendezvous_->Post(std::move(offer));
  Duration now = SystemClock()->Now();
  if (next_sweep_ <= now) next_sweep_ = now + kSweepInterval;
  return false;
}

}  // namespace pipedream
