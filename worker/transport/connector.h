// Makes the channels of one worker. A worker has one Connector for its life; a job's attempt opens
// channels by name on both ends. The receiving side listens (Accept), the sending side dials
// (Connect); either may come first. Backend per edge: same process -> local; same host and network
// namespace -> shm (an anonymous memory file passed over a Unix socket: nothing to clean up, ever);
// otherwise tcp.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "worker/transport/channel.h"

namespace pipedream {

// Where a worker can be reached, as it registers it with the coordinator.
struct DataAddress {
  std::string host;        // dialled for tcp: "127.0.0.1"
  int port = 0;            // bound, never 0
  std::string host_id;     // equal for workers that can share memory: boot id + network namespace
  std::string unix_name;   // abstract Unix socket for shm; empty: shm not offered
  std::string process_id;  // equal only within one process: local
  bool operator==(const DataAddress&) const = default;
};

enum class TransportKind { kAuto, kLocal, kShm, kTcp };
// "auto", "local", "shm", "tcp"
std::string ToString(TransportKind kind);

struct ChannelOptions {
  std::string name;    // unique per attempt and direction: "job-7/2/s0r0>s1r0/activation"
  std::string secret;  // both ends must present the same one; handed out per attempt
  size_t slots = 2;
  size_t max_message_bytes = 0;
  Duration timeout{};  // for the handshake
};

struct ConnectorOptions {
  std::string bind_host = "127.0.0.1";
  int port = 0;  // 0: any free one
  bool offer_shm = true;
  double pacing_bytes_per_s = 0;  // tcp send rate limit, for tests; 0: none
};

class Connector {
 public:
  // Binds and starts to listen. kUnavailable names the address that cannot be bound.
  static absl::StatusOr<std::unique_ptr<Connector>> Create(const ConnectorOptions& options);
  virtual ~Connector() = default;
  // Its host is bind_host; who binds a wildcard puts in what others can dial.
  virtual const DataAddress& address() const = 0;

  // Announces `options.name` and blocks until the sender has dialled in. kDeadlineExceeded names
  // the channel; kFailedPrecondition, at both ends, if slots or sizes differ. A wrong secret is
  // refused (kPermissionDenied at the dialler) and the wait goes on. Thread-safe; a plan's channels
  // are opened concurrently.
  virtual absl::StatusOr<std::unique_ptr<ReceiveChannel>> Accept(const ChannelOptions& options) = 0;
  // Dials `peer` and blocks until the receiver has accepted. kAuto picks the best that both share,
  // and tcp where that turns out not to work. kUnavailable if the peer cannot be reached.
  virtual absl::StatusOr<std::unique_ptr<SendChannel>> Connect(const DataAddress& peer,
                                                               TransportKind kind,
                                                               const ChannelOptions& options) = 0;
  // Fails every handshake in progress (channels already open are aborted by their owners). One that
  // begins later is not affected: the caller does not begin it.
  virtual void AbortHandshakes(const absl::Status& cause) = 0;
};

// Both ends in one process, no sockets: what the one-thread simulation and unit tests use.
struct LocalChannel {
  std::unique_ptr<SendChannel> send;
  std::unique_ptr<ReceiveChannel> receive;
};
LocalChannel MakeLocalChannel(size_t slots, size_t max_message_bytes);

}  // namespace pipedream
