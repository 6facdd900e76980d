// Why a channel works no longer, and how a cause travels to the other end.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/base/mutex.h"

namespace pipedream {

// The first cause wins. Thread-safe.
class FailureCell {
 public:
  enum class State : int {
    kOpen,
    kClosed,   // the peer is gone: what has arrived is still delivered
    kAborted,  // nothing is delivered any more
  };
  // Both return false if the state did not change. `cause` must not be OK.
  bool Close(const absl::Status& cause);
  bool Abort(const absl::Status& cause);
  State state() const { return state_.load(std::memory_order_acquire); }
  // OK while open.
  absl::Status cause() const;

 private:
  std::atomic<State> state_{State::kOpen};
  mutable Mutex mutex_;
  absl::Status cause_ PD_GUARDED_BY(mutex_);
};

// kUnavailable "peer of channel X is gone"; `detail` says more in brackets.
absl::Status PeerGone(std::string_view channel, std::string_view detail = {});

// The encoding of a cause on the wire: code, reason and message, the message cut so that the whole
// fits kMaxCauseBytes.
inline constexpr size_t kMaxCauseBytes = 1024;
std::string EncodeCause(const absl::Status& cause);
// Same code, reason and message. Anything malformed gives kUnavailable.
absl::Status DecodeCause(std::string_view encoded);
// What the peer's Abort looks like here: "aborted by the peer: <message>".
absl::Status AbortedByPeer(std::string_view encoded);

// What flows against the messages of a tcp channel, and both ways beside a shm channel: one byte
// for each slot that was given back, and at most one abort. Not thread-safe.
inline constexpr char kAckByte = 0x06;
std::string EncodeAbort(const absl::Status& cause);
class ControlReader {
 public:
  // Adds to *acks and sets *abort once one is complete. kUnavailable on bytes that are neither.
  absl::Status Feed(std::string_view bytes, size_t* acks, absl::Status* abort);

 private:
  std::string partial_;  // an abort that has begun
};

}  // namespace pipedream
