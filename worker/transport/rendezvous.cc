#include "worker/transport/rendezvous.h"

#include <utility>

#include "common/base/status.h"
#include "worker/transport/socket.h"

namespace pipedream {

bool LocalDial::Answer(absl::StatusOr<std::unique_ptr<SendChannel>> answer) {
  MutexLock lock(mutex_);
  if (dialler_ == nullptr) return false;
  answer_ = std::move(answer);
  dialler_->wake().Notify();
  return true;
}

bool LocalDial::waiting() const {
  MutexLock lock(mutex_);
  return dialler_ != nullptr;
}

std::optional<absl::StatusOr<std::unique_ptr<SendChannel>>> LocalDial::Take(bool leave) {
  MutexLock lock(mutex_);
  if (leave || answer_.has_value()) dialler_ = nullptr;
  return std::exchange(answer_, std::nullopt);
}

bool Offer::Alive(Duration now) const {
  if (now >= expires) return false;
  // A dialler says nothing before it has its reply, so anything readable is a hang-up.
  return local != nullptr ? local->waiting() : !HungUp(socket.get());
}

void Offer::Refuse(const absl::Status& why) {
  if (local != nullptr) {
    local->Answer(why);
  } else {
    SendNow(socket.get(), EncodeReply(why)).IgnoreError();
    socket.Reset();
  }
}

absl::Status Rendezvous::Announce(const std::string& name, Cancellation* receiver) {
  MutexLock lock(mutex_);
  if (!announced_.emplace(name, receiver).second) {
    return InvalidArgument("channel {} is being accepted already", name);
  }
  return absl::OkStatus();
}

void Rendezvous::Withdraw(const std::string& name) {
  MutexLock lock(mutex_);
  announced_.erase(name);
}

std::optional<Offer> Rendezvous::Take(const std::string& name) {
  Duration now = SystemClock()->Now();
  MutexLock lock(mutex_);
  for (auto it = parked_.begin(); it != parked_.end();) {
    if (it->hello.options.name != name) {
      ++it;
      continue;
    }
    Offer offer = std::move(*it);
    it = parked_.erase(it);
    if (offer.Alive(now)) return offer;
  }
  return std::nullopt;
}

void Rendezvous::Post(Offer offer) {
  const std::string& name = offer.hello.options.name;
  {
    Duration now = SystemClock()->Now();
    MutexLock lock(mutex_);
    auto receiver = announced_.find(name);
    bool awaited = receiver != announced_.end();
    if (!awaited && parked_.size() >= kMaxParked) {
      parked_.remove_if([now](const Offer& parked) { return !parked.Alive(now); });
    }
    // The limit is for those who may wait long; an awaited one is dealt with at once.
    if (awaited || parked_.size() < kMaxParked) {
      parked_.push_back(std::move(offer));
      if (awaited) receiver->second->wake().Notify();
      return;
    }
  }
  offer.Refuse(ResourceExhausted("channel {}: {} channels wait to be accepted at this worker", name,
                                 kMaxParked));
}

bool Rendezvous::Sweep() {
  Duration now = SystemClock()->Now();
  MutexLock lock(mutex_);
  parked_.remove_if([now](const Offer& offer) { return !offer.Alive(now); });
  return !parked_.empty();
}

namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<Rendezvous>> by_address PD_GUARDED_BY(mutex);
};

Registry& ProcessRegistry() {
  static Registry* registry = new Registry;  // never destroyed: connectors may outlive statics
  return *registry;
}

}  // namespace

void RegisterRendezvous(const std::string& address, const std::shared_ptr<Rendezvous>& rendezvous) {
  Registry& registry = ProcessRegistry();
  MutexLock lock(registry.mutex);
  registry.by_address[address] = rendezvous;
}

void UnregisterRendezvous(const std::string& address) {
  Registry& registry = ProcessRegistry();
  MutexLock lock(registry.mutex);
  registry.by_address.erase(address);
}

std::shared_ptr<Rendezvous> FindRendezvous(const std::string& address) {
  Registry& registry = ProcessRegistry();
  MutexLock lock(registry.mutex);
  auto it = registry.by_address.find(address);
  return it == registry.by_address.end() ? nullptr : it->second.lock();
}

}  // namespace pipedream
