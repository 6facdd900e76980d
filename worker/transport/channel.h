// The data plane's one contract: a channel carries messages from one sender to one receiver, in
// order, exactly once, through a fixed number of equal slots that are allocated before the first
// step. Order is part of the contract (rule V5 of the schedule validator), so a transport without
// tags, such as NCCL, can serve; every message still carries its key, and a mismatch is an error
// that names both.
//
// Flow control: at most `slots` messages are in flight between Acquire and Release. Both ends work
// in place: the sender fills the slot that TryAcquire returns, the receiver reads the slot that
// TryReceive returns until it calls Release.
//
// Threads: each end is used by one thread at a time (its stage's executor); Abort may be called
// from any thread, at any time, more than once. Nothing blocks except the Wait functions.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"

namespace pipedream {

enum class MessageKind : uint8_t {
  kActivation = 0,  // forward tensors of a training microbatch
  kGradient = 1,    // their gradients
  kEvaluation = 2,  // forward tensors of an evaluation microbatch
  kCollective = 3,  // a chunk of an all-reduce
  kProbe = 4,       // link measurement
};

// Which message this is; unique on its channel.
struct MessageKey {
  MessageKind kind = MessageKind::kActivation;
  // Microbatch, or running number of the collective's chunk; in the bits above kIndexBits, how
  // often the sender has gone back to send such messages again.
  int64_t index = 0;
  static constexpr int kIndexBits = 40;
  int64_t round() const { return index >> kIndexBits; }
  bool operator==(const MessageKey&) const = default;
};

// "activation 17"
std::string ToString(const MessageKey& key);

class SendChannel {
 public:
  virtual ~SendChannel() = default;
  // A free slot of max_message_bytes() bytes, 64-byte aligned, valid until Commit; nullopt while
  // all are in flight. An aborted channel or a lost peer gives that error for ever.
  virtual absl::StatusOr<std::optional<std::span<std::byte>>> TryAcquire() = 0;
  // Hands the first `bytes` of the acquired slot to the receiver. REQUIRES: a slot is acquired;
  // bytes <= max_message_bytes().
  virtual absl::Status Commit(const MessageKey& key, size_t bytes) = 0;
  // Returns once TryAcquire would not give nullopt, or after `timeout`; false on time-out.
  virtual bool Wait(Duration timeout) = 0;
  // Every pending and later call fails with `cause` (the first one given wins). The other end fails
  // too: with the same code, reason and message (after "aborted by the peer: " if it is another
  // process), or as if the peer were gone where the cause cannot be carried any more.
  virtual void Abort(const absl::Status& cause) = 0;
  virtual size_t max_message_bytes() const = 0;
  // What the way to the receiver delivers, as far as it was used to the full; 0: not known.
  virtual double bytes_per_s() const { return 0; }
};

class ReceiveChannel {
 public:
  virtual ~ReceiveChannel() = default;
  // The next message, if it has arrived: valid until Release. kInternal if its key is not `key`
  // (sender and receiver follow different schedules). Errors as TryAcquire; messages that arrived
  // whole before a peer was lost are still delivered.
  virtual absl::StatusOr<std::optional<std::span<const std::byte>>> TryReceive(
      const MessageKey& key) = 0;
  // The key of the message that TryReceive would look at; nullopt if none has arrived.
  virtual std::optional<MessageKey> Peek() = 0;
  // Gives the slot back to the sender. REQUIRES: a message is held.
  virtual void Release() = 0;
  // Returns once TryReceive would not give nullopt, or after `timeout`; false on time-out.
  virtual bool Wait(Duration timeout) = 0;
  virtual void Abort(const absl::Status& cause) = 0;
  virtual size_t max_message_bytes() const = 0;
};

}  // namespace pipedream
