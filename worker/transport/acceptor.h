// The thread behind a connector's listening sockets: reads what diallers say and posts it to the
// rendezvous. It never waits for any one of them: at most kMaxStrangers are heard at a time, and
// each has kHelloTimeout for at most kMaxHelloBytes. When there are more, the oldest makes room
// once it has had kHelloGrace; until then the newest wait in the kernel's queue.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "worker/transport/connector.h"
#include "worker/transport/rendezvous.h"
#include "worker/transport/wake.h"

namespace pipedream {

inline constexpr size_t kMaxStrangers = 256;
inline constexpr Duration kHelloTimeout = std::chrono::seconds(5);
inline constexpr Duration kHelloGrace = std::chrono::milliseconds(200);

class Acceptor {
 public:
  // `unix_socket` may be invalid: then there is no shm. The destructor stops the thread.
  Acceptor(UniqueFd tcp, UniqueFd unix_socket, std::shared_ptr<Rendezvous> rendezvous, Wake stop);
  ~Acceptor();

 private:
  struct Stranger {
    UniqueFd fd;
    TransportKind kind = TransportKind::kTcp;
    std::string said;
    Duration since{};
  };

  void Run();
  // When the thread has something to do, whatever is heard.
  Duration NextDeadline(Duration now);
  // Until when nobody is accepted; in the past if there is room.
  Duration AcceptsFrom() const;
  void AcceptAll(int listener, TransportKind kind);
  // Takes in what has come. False once the stranger is dealt with: posted, refused or dropped.
  bool Hear(Stranger* stranger);

  const UniqueFd tcp_;
  const UniqueFd unix_socket_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  const Wake stop_;
  // Of the thread.
  std::list<Stranger> strangers_;
  Duration paused_until_{};  // no new connections while descriptors are short
  Duration next_sweep_{};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pipedream
