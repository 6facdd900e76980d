#include "worker/transport/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kBacklog = 256;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int error = getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &list);
  if (error != 0) return Unavailable("{}:{}: {}", host, port, gai_strerror(error));
  return Addresses(list);
}

int BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  }
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<socklen_t> AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof(address->sun_path) - 1) {
    return Unavailable("Unix socket name of {} bytes; expected 1 to {}", name.size(),
                       sizeof(address->sun_path) - 1);
  }
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

absl::StatusOr<UniqueFd> DialOne(const addrinfo& address, Duration deadline,
                                 const Cancellation& operation) {
  UniqueFd fd(socket(address.ai_family, kSocketFlags, 0));
  if (!fd.valid()) return Unavailable("{}", std::strerror(errno));
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return Unavailable("{}", std::strerror(errno));
  PD_RETURN_IF_ERROR(PollUntil(fd.get(), POLLOUT, deadline, operation));
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Unavailable("{}", std::strerror(error));
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenTcp(const std::string& host, int port, int* bound_port) {
  if (port < 0 || port > 65535) {
    return InvalidArgument("data port {}; expected 0 (any free one) to 65535", port);
  }
  PD_ASSIGN_OR_RETURN(Addresses addresses, Resolve(host, port, AI_PASSIVE));
  UniqueFd fd(socket(addresses->ai_family, kSocketFlags, 0));
  int on = 1;
  if (fd.valid()) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd.valid() || bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Unavailable("cannot listen for data at {}:{}: {}", host, port, std::strerror(errno));
  }
  *bound_port = BoundPort(fd.get());
  return fd;
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& abstract_name) {
  sockaddr_un address;
  PD_ASSIGN_OR_RETURN(socklen_t length, AbstractAddress(abstract_name, &address));
  UniqueFd fd(socket(AF_UNIX, kSocketFlags, 0));
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Unavailable("cannot listen at Unix socket @{}: {}", abstract_name, std::strerror(errno));
  }
  return fd;
}

absl::StatusOr<UniqueFd> DialTcp(const std::string& host, int port, Duration deadline,
                                 const Cancellation& operation) {
  PD_ASSIGN_OR_RETURN(Addresses addresses, Resolve(host, port, 0));
  absl::Status last = Unavailable("{}:{}: no address", host, port);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    auto fd = DialOne(*a, deadline, operation);
    if (fd.ok()) {
      TuneTcp(fd->get());
      return fd;
    }
    if (!absl::IsUnavailable(fd.status()) || !operation.cause().ok()) return fd.status();
    last = Annotate(fd.status(), fmt::format("cannot connect to {}:{}", host, port));
  }
  return last;
}

absl::StatusOr<UniqueFd> DialUnix(const std::string& abstract_name, Duration deadline,
                                  const Cancellation& operation) {
  sockaddr_un address;
  PD_ASSIGN_OR_RETURN(socklen_t length, AbstractAddress(abstract_name, &address));
  UniqueFd fd(socket(AF_UNIX, kSocketFlags, 0));
  // It connects at once or not at all. While the listener's queue is full nothing says when there
  // is room, so this asks again.
  constexpr Duration kPause = std::chrono::milliseconds(2);
  while (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (!fd.valid() || (errno != EAGAIN && errno != EINTR)) {
      return Unavailable("cannot connect to Unix socket @{}: {}", abstract_name,
                         std::strerror(errno));
    }
    Duration now = SystemClock()->Now();
    absl::Status paused = PollUntil(-1, 0, std::min(deadline, now + kPause), operation);
    if (!paused.ok() && (!absl::IsDeadlineExceeded(paused) || now >= deadline)) return paused;
  }
  return fd;
}

void TuneTcp(int fd) {
  auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

absl::Status SetPacing(int fd, double bytes_per_s) {
  // At least a byte: zero would stop the socket.
  uint64_t rate = bytes_per_s < 1 ? 1 : static_cast<uint64_t>(bytes_per_s);
  if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) != 0) {
    return Unavailable("cannot limit a socket to {} bytes/s: {}", rate, std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadWithFd(int fd, std::span<char> bytes, UniqueFd* received,
                                  Duration deadline, const Cancellation& operation) {
  while (true) {
    PD_RETURN_IF_ERROR(PollUntil(fd, POLLIN, deadline, operation));
    iovec io{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // room for one descriptor, no more
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return Unavailable("{}", std::strerror(errno));
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(c), sizeof descriptor);
        received->Reset(descriptor);
      }
    }
    if (n == 0) return Unavailable("the peer hung up");
    return static_cast<size_t>(n);
  }
}

absl::Status ReadExactly(int fd, std::span<char> bytes, Duration deadline,
                         const Cancellation& operation) {
  while (!bytes.empty()) {
    PD_RETURN_IF_ERROR(PollUntil(fd, POLLIN, deadline, operation));
    ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return Unavailable("{}", std::strerror(errno));
    if (n == 0) return Unavailable("the peer hung up");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, std::string_view bytes, Duration deadline,
                      const Cancellation& operation) {
  while (!bytes.empty()) {
    PD_RETURN_IF_ERROR(PollUntil(fd, POLLOUT, deadline, operation));
    ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return Unavailable("{}", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status SendNow(int fd, std::string_view bytes, int descriptor) {
  iovec io{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
  }
  ssize_t n = 0;
  do {
    n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return Unavailable("{}", std::strerror(errno));
  if (static_cast<size_t>(n) != bytes.size()) return Unavailable("the peer does not read");
  return absl::OkStatus();
}

bool HungUp(int fd) {
  pollfd p{fd, POLLIN | POLLRDHUP, 0};
  return poll(&p, 1, 0) > 0;
}

}  // namespace pipedream
