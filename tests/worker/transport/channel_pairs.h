// Open channels of every backend, for tests that must hold for all of them.
#pragma once

#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "worker/transport/connector.h"

namespace pipedream {

// For what must happen: generous, since sanitizers and busy machines are slow.
inline constexpr Duration kLong = std::chrono::seconds(30);
// A deadline so far away.
inline Duration Soon() { return SystemClock()->Now() + kLong; }
// For what must not happen.
inline constexpr Duration kShort = std::chrono::milliseconds(20);

inline MessageKey Activation(int64_t index) { return {MessageKind::kActivation, index}; }

// The result of a handshake on another thread that is bound to fail: `connector` aborts it, again
// and again, since it may not have begun yet.
template <typename T>
T AbortAndGet(std::future<T>* handshake, Connector* connector, const absl::Status& cause) {
  while (handshake->wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    connector->AbortHandshakes(cause);
  }
  return handshake->get();
}

// Both ends in this process, through two connectors.
class ChannelFactory {
 public:
  explicit ChannelFactory(TransportKind kind) : kind_(kind) {}

  absl::StatusOr<LocalChannel> Open(const std::string& name, size_t slots, size_t bytes) {
    if (receiver_ == nullptr) {
      PD_ASSIGN_OR_RETURN(sender_, Connector::Create({}));
      PD_ASSIGN_OR_RETURN(receiver_, Connector::Create({}));
    }
    ChannelOptions options{name, "secret", slots, bytes, kLong};
    auto accepted = std::async(std::launch::async, [&] { return receiver_->Accept(options); });
    auto connected = sender_->Connect(receiver_->address(), kind_, options);
    auto received = connected.ok() ? accepted.get()
                                   : AbortAndGet(&accepted, receiver_.get(), connected.status());
    PD_RETURN_IF_ERROR(connected.status());
    PD_RETURN_IF_ERROR(received.status());
    return LocalChannel{*std::move(connected), *std::move(received)};
  }

 private:
  TransportKind kind_;
  std::unique_ptr<Connector> sender_;
  std::unique_ptr<Connector> receiver_;
};

inline std::string KindName(const testing::TestParamInfo<TransportKind>& info) {
  return ToString(info.param);
}

}  // namespace pipedream
