// Where announced channel names and diallers meet; either may come first. A dialler whose channel
// is not announced yet is parked: at most kMaxParked of them, each as long as it said it would
// wait.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/mutex.h"
#include "worker/transport/connector.h"
#include "worker/transport/handshake.h"
#include "worker/transport/wake.h"

namespace pipedream {

// A dialler of the same process, waiting for its end. Thread-safe.
class LocalDial {
 public:
  explicit LocalDial(Cancellation* dialler) : dialler_(dialler) {}
  // Both give false if the dialler has gone.
  bool Answer(absl::StatusOr<std::unique_ptr<SendChannel>> answer);
  bool waiting() const;
  // The dialler: the answer, if there is one; with `leave` there will be none later.
  std::optional<absl::StatusOr<std::unique_ptr<SendChannel>>> Take(bool leave);

 private:
  mutable Mutex mutex_;
  Cancellation* dialler_ PD_GUARDED_BY(mutex_);  // null once the dialler has left
  std::optional<absl::StatusOr<std::unique_ptr<SendChannel>>> answer_ PD_GUARDED_BY(mutex_);
};

// A dialler that has said its hello.
struct Offer {
  Hello hello;
  UniqueFd socket;                   // kShm, kTcp
  std::shared_ptr<LocalDial> local;  // kLocal
  Duration expires{};                // on SystemClock

  bool Alive(Duration now) const;
  // Tells the dialler why not. Does not block.
  void Refuse(const absl::Status& why);
};

inline constexpr size_t kMaxParked = 512;

// Thread-safe.
class Rendezvous {
 public:
  // Offers for `name` notify `receiver` until Withdraw. kInvalidArgument if it is announced
  // already.
  absl::Status Announce(const std::string& name, Cancellation* receiver);
  void Withdraw(const std::string& name);
  // The oldest offer for `name` whose dialler is still there.
  std::optional<Offer> Take(const std::string& name);
  // Refuses the offer if too many are parked.
  void Post(Offer offer);
  // Drops parked offers whose time is over or whose dialler hung up. True if any are left.
  bool Sweep();

 private:
  Mutex mutex_;
  std::map<std::string, Cancellation*> announced_ PD_GUARDED_BY(mutex_);
  std::list<Offer> parked_ PD_GUARDED_BY(mutex_);
};

// The rendezvous of this process's connectors, by "host:port", for the local transport.
// Thread-safe.
void RegisterRendezvous(const std::string& address, const std::shared_ptr<Rendezvous>& rendezvous);
void UnregisterRendezvous(const std::string& address);
std::shared_ptr<Rendezvous> FindRendezvous(const std::string& address);

}  // namespace pipedream
