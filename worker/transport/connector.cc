#include "worker/transport/connector.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "worker/transport/acceptor.h"
#include "worker/transport/handshake.h"
#include "worker/transport/local/local_channel.h"
#include "worker/transport/rendezvous.h"
#include "worker/transport/shm/region.h"
#include "worker/transport/shm/shm_channel.h"
#include "worker/transport/socket.h"
#include "worker/transport/tcp/tcp_channel.h"
#include "worker/transport/wake.h"

namespace pipedream {
namespace {

// A dialler that has its reply confirms at once, or is stuck.
constexpr Duration kConfirmTimeout = std::chrono::seconds(5);

std::string RandomHex() {
  unsigned char bytes[16] = {};
  // 16 bytes come whole or not at all; zeros would only cost uniqueness, and bind would tell.
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) LogWarning("getrandom failed");
  std::string out;
  for (unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

// After a fork the child is another process: hence the pid.
std::string ProcessId() {
  static const std::string* random = new std::string(RandomHex());
  return fmt::format("{}-{}", *random, getpid());
}

// Empty if it cannot be told; then nothing is shared.
std::string HostId() {
  auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 128);
  char space[128];
  ssize_t n = readlink("/proc/self/ns/net", space, sizeof space);
  if (!boot.ok() || n <= 0) return {};
  while (!boot->empty() && boot->back() == '\n') boot->pop_back();
  return fmt::format("{}/{}", *boot, std::string_view(space, static_cast<size_t>(n)));
}

std::string HostPort(const DataAddress& address) {
  return fmt::format("{}:{}", address.host, address.port);
}

Duration DeadlineOf(const ChannelOptions& options) {
  constexpr Duration kLongest = std::chrono::hours(1);
  return SystemClock()->Now() + std::clamp(options.timeout, Duration::zero(), kLongest);
}

// One Accept or Connect: others may cancel it while it lives.
class Operation {
 public:
  Operation(CancellationSet* all, Wake wake) : all_(all), cancellation_(std::move(wake)) {
    all_->Add(&cancellation_);
  }
  ~Operation() { all_->Remove(&cancellation_); }
  Cancellation& cancellation() { return cancellation_; }

 private:
  CancellationSet* all_;
  Cancellation cancellation_;
};

class WorkerConnector : public Connector {
 public:
  WorkerConnector(const ConnectorOptions& options, DataAddress address, UniqueFd tcp,
                  UniqueFd unix_socket, Wake stop)
      : options_(options),
        address_(std::move(address)),
        rendezvous_(std::make_shared<Rendezvous>()),
        acceptor_(std::move(tcp), std::move(unix_socket), rendezvous_, std::move(stop)) {
    RegisterRendezvous(HostPort(address_), rendezvous_);
  }

  ~WorkerConnector() override {
    UnregisterRendezvous(HostPort(address_));
    AbortHandshakes(Aborted("the worker closes its data port"));
  }

  const DataAddress& address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<ReceiveChannel>> Accept(const ChannelOptions& options) override;
  absl::StatusOr<std::unique_ptr<SendChannel>> Connect(const DataAddress& peer, TransportKind kind,
                                                       const ChannelOptions& options) override;
  void AbortHandshakes(const absl::Status& cause) override { operations_.CancelAll(cause); }

 private:
  absl::StatusOr<std::unique_ptr<ReceiveChannel>> AcceptOffer(Offer* offer,
                                                              const ChannelOptions& options,
                                                              Duration deadline,
                                                              const Cancellation& operation);
  absl::StatusOr<std::unique_ptr<SendChannel>> ConnectLocal(const DataAddress& peer,
                                                            const ChannelOptions& options,
                                                            Duration deadline,
                                                            Cancellation* operation);
  absl::StatusOr<std::unique_ptr<SendChannel>> ConnectSocket(const DataAddress& peer,
                                                             TransportKind kind,
                                                             const ChannelOptions& options,
                                                             Duration deadline,
                                                             const Cancellation& operation);

  const ConnectorOptions options_;
  const DataAddress address_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  CancellationSet operations_;
  Acceptor acceptor_;
};

absl::StatusOr<std::unique_ptr<ReceiveChannel>> WorkerConnector::Accept(
    const ChannelOptions& options) {
  PD_RETURN_IF_ERROR(CheckOptions(options));
  PD_ASSIGN_OR_RETURN(Wake wake, Wake::Create());
  Operation operation(&operations_, std::move(wake));
  Cancellation& cancellation = operation.cancellation();
  PD_RETURN_IF_ERROR(rendezvous_->Announce(options.name, &cancellation));
  struct Withdrawal {
    Rendezvous* rendezvous;
    const std::string& name;
    ~Withdrawal() { rendezvous->Withdraw(name); }
  } withdrawal{rendezvous_.get(), options.name};

  Duration deadline = DeadlineOf(options);
  absl::Status last;
  while (true) {
    std::optional<Offer> offer = rendezvous_->Take(options.name);
    if (!offer.has_value()) {
      absl::Status waited = PollUntil(-1, 0, deadline, cancellation);
      if (waited.ok()) continue;
      if (!cancellation.cause().ok() || !absl::IsDeadlineExceeded(waited)) return waited;
      return DeadlineExceeded("channel {}: no sender has dialled in within {}{}", options.name,
                              FormatSeconds(ToSeconds(options.timeout)),
                              last.ok() ? "" : fmt::format("; last attempt: {}", last.ToString()));
    }
    absl::Status verdict = CompareOptions(options, offer->hello.options);
    if (!verdict.ok()) {
      offer->Refuse(verdict);
      // Anyone can present a wrong secret; that must not end the wait for the right one.
      if (!absl::IsPermissionDenied(verdict)) return verdict;
      LogWarning("{}", verdict.ToString());
      last = verdict;
      continue;
    }
    auto channel = AcceptOffer(&*offer, options, deadline, cancellation);
    if (channel.ok()) return channel;
    PD_RETURN_IF_ERROR(cancellation.cause());
    // The sender gave up half-way, perhaps to try another transport.
    if (!absl::IsUnavailable(channel.status()) && !absl::IsDeadlineExceeded(channel.status())) {
      return channel.status();
    }
    last = channel.status();
  }
}

absl::StatusOr<std::unique_ptr<ReceiveChannel>> WorkerConnector::AcceptOffer(
    Offer* offer, const ChannelOptions& options, Duration deadline, const Cancellation& operation) {
  if (offer->local != nullptr) {
    auto local = CreateLocalChannel(options.name, options.slots, options.max_message_bytes);
    if (!local.ok()) {
      offer->Refuse(local.status());
      return local.status();
    }
    if (!offer->local->Answer(std::move(local->send))) return Unavailable("the sender left");
    return std::move(local->receive);
  }
  int fd = offer->socket.get();
  std::unique_ptr<ShmRegion> region;
  if (offer->hello.kind == TransportKind::kShm) {
    auto made = ShmRegion::Create(options.name, options.slots, options.max_message_bytes);
    if (!made.ok()) {
      // kUnavailable lets the sender, and us, go on with tcp.
      absl::Status why =
          Unavailable("no shared memory at the receiver: {}", made.status().ToString());
      offer->Refuse(why);
      return why;
    }
    region = *std::move(made);
  }
  PD_RETURN_IF_ERROR(SendNow(fd, EncodeReply(absl::OkStatus()), region ? region->fd() : -1));
  char confirm = 0;
  Duration soon = std::min(deadline, SystemClock()->Now() + kConfirmTimeout);
  PD_RETURN_IF_ERROR(ReadExactly(fd, {&confirm, 1}, soon, operation));
  if (confirm != kConfirmByte) return Unavailable("the sender does not speak the protocol");
  if (region != nullptr) return MakeShmReceive(std::move(region), std::move(offer->socket));
  return MakeTcpReceive(std::move(offer->socket), options.name, options.slots,
                        options.max_message_bytes);
}

absl::StatusOr<std::unique_ptr<SendChannel>> WorkerConnector::Connect(
    const DataAddress& peer, TransportKind kind, const ChannelOptions& options) {
  PD_RETURN_IF_ERROR(CheckOptions(options));
  PD_ASSIGN_OR_RETURN(Wake wake, Wake::Create());
  Operation operation(&operations_, std::move(wake));
  Cancellation& cancellation = operation.cancellation();
  Duration deadline = DeadlineOf(options);
  bool automatic = kind == TransportKind::kAuto;
  if (automatic) {
    bool shm = !peer.unix_name.empty() && !address_.unix_name.empty() && !peer.host_id.empty() &&
               peer.host_id == address_.host_id;
    kind = peer.process_id == address_.process_id ? TransportKind::kLocal
           : shm                                  ? TransportKind::kShm
                                                  : TransportKind::kTcp;
  }
  if (kind == TransportKind::kLocal) return ConnectLocal(peer, options, deadline, &cancellation);
  auto channel = ConnectSocket(peer, kind, options, deadline, cancellation);
  bool fall_back = automatic && kind == TransportKind::kShm && cancellation.cause().ok() &&
                   absl::IsUnavailable(channel.status());
  if (!fall_back) return channel;
  LogWarning("channel {}: no shared memory with {}, using tcp: {}", options.name, HostPort(peer),
             channel.status().ToString());
  return ConnectSocket(peer, TransportKind::kTcp, options, deadline, cancellation);
}

// What a dialler's failure looks like to its caller.
absl::Status DialFailure(const absl::Status& status, const DataAddress& peer,
                         const ChannelOptions& options, const Cancellation& operation) {
  if (absl::Status cancelled = operation.cause(); !cancelled.ok()) return cancelled;
  if (!absl::IsDeadlineExceeded(status)) return status;
  return DeadlineExceeded("channel {}: the receiver at {} has not accepted it within {}",
                          options.name, HostPort(peer), FormatSeconds(ToSeconds(options.timeout)));
}

absl::StatusOr<std::unique_ptr<SendChannel>> WorkerConnector::ConnectLocal(
    const DataAddress& peer, const ChannelOptions& options, Duration deadline,
    Cancellation* operation) {
  std::shared_ptr<Rendezvous> rendezvous = FindRendezvous(HostPort(peer));
  if (peer.process_id != address_.process_id || rendezvous == nullptr) {
    return Unavailable("channel {}: {} is no worker of this process", options.name, HostPort(peer));
  }
  auto dial = std::make_shared<LocalDial>(operation);
  Offer offer;
  offer.hello = {TransportKind::kLocal, options};
  offer.local = dial;
  offer.expires = deadline;
  rendezvous->Post(std::move(offer));
  while (true) {
    absl::Status waited = PollUntil(-1, 0, deadline, *operation);
    auto answer = dial->Take(/*leave=*/!waited.ok());
    if (answer.has_value()) return *std::move(answer);
    if (!waited.ok()) return DialFailure(waited, peer, options, *operation);
  }
}

absl::StatusOr<std::unique_ptr<SendChannel>> WorkerConnector::ConnectSocket(
    const DataAddress& peer, TransportKind kind, const ChannelOptions& options, Duration deadline,
    const Cancellation& operation) {
  auto dialled = kind == TransportKind::kShm ? DialUnix(peer.unix_name, deadline, operation)
                                             : DialTcp(peer.host, peer.port, deadline, operation);
  auto failure = [&](const absl::Status& status) {
    return DialFailure(status, peer, options, operation);
  };
  auto lost = [&](const absl::Status& status) {
    return failure(absl::IsUnavailable(status)
                       ? Annotate(status, fmt::format("channel {}: handshake with {}", options.name,
                                                      HostPort(peer)))
                       : status);
  };
  if (!dialled.ok()) return failure(Annotate(dialled.status(), "channel " + options.name));
  UniqueFd socket = *std::move(dialled);
  int fd = socket.get();
  if (kind == TransportKind::kTcp && options_.pacing_bytes_per_s > 0) {
    PD_RETURN_IF_ERROR(SetPacing(fd, options_.pacing_bytes_per_s));
  }
  absl::Status said = WriteAll(fd, EncodeHello({kind, options}), deadline, operation);
  if (!said.ok()) return lost(said);
  UniqueFd memory;
  absl::Status verdict = ReadReply(fd, &memory, deadline, operation);
  if (!verdict.ok()) return lost(verdict);

  std::unique_ptr<SendChannel> channel;
  if (kind == TransportKind::kShm) {
    PD_ASSIGN_OR_RETURN(auto region, ShmRegion::Map(std::move(memory), options.name, options.slots,
                                                    options.max_message_bytes));
    channel = MakeShmSend(std::move(region), std::move(socket));
  } else {
    PD_ASSIGN_OR_RETURN(channel, MakeTcpSend(std::move(socket), options.name, options.slots,
                                             options.max_message_bytes));
  }
  // Last, when nothing can fail any more. Nobody else writes to the socket before a commit.
  absl::Status confirmed = WriteAll(fd, {&kConfirmByte, 1}, deadline, operation);
  if (!confirmed.ok()) return lost(confirmed);
  return channel;
}

}  // namespace

std::string ToString(TransportKind kind) {
  switch (kind) {
    case TransportKind::kAuto:
      return "auto";
    case TransportKind::kLocal:
      return "local";
    case TransportKind::kShm:
      return "shm";
    case TransportKind::kTcp:
      return "tcp";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Connector>> Connector::Create(const ConnectorOptions& options) {
  DataAddress address;
  address.host = options.bind_host;
  PD_ASSIGN_OR_RETURN(UniqueFd tcp, ListenTcp(options.bind_host, options.port, &address.port));
  address.host_id = HostId();
  address.process_id = ProcessId();
  UniqueFd unix_socket;
  if (options.offer_shm && !address.host_id.empty()) {
    std::string name = "pipedream-" + RandomHex();
    auto listening = ListenUnix(name);
    if (listening.ok()) {
      unix_socket = *std::move(listening);
      address.unix_name = name;
    } else {
      LogWarning("shared memory is not offered: {}", listening.status().ToString());
    }
  }
  PD_ASSIGN_OR_RETURN(Wake stop, Wake::Create());
  return std::make_unique<WorkerConnector>(options, std::move(address), std::move(tcp),
                                           std::move(unix_socket), std::move(stop));
}

}  // namespace pipedream
