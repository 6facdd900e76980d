#include "worker/transport/failure.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {
constexpr char kAbortByte = 0x15;
constexpr size_t kAbortHeaderBytes = 3;  // kAbortByte, length as 16 bits
constexpr size_t kMaxReasonBytes = 64;
}  // namespace

bool FailureCell::Close(const absl::Status& cause) {
  MutexLock lock(mutex_);
  if (state_.load(std::memory_order_relaxed) != State::kOpen) return false;
  cause_ = cause;
  state_.store(State::kClosed, std::memory_order_release);
  return true;
}

bool FailureCell::Abort(const absl::Status& cause) {
  MutexLock lock(mutex_);
  State before = state_.load(std::memory_order_relaxed);
  if (before == State::kAborted) return false;
  if (before == State::kOpen) {
    cause_ = cause.ok() ? Aborted("the channel was aborted") : cause;
  }
  state_.store(State::kAborted, std::memory_order_release);
  return true;
}

absl::Status FailureCell::cause() const {
  MutexLock lock(mutex_);
  return cause_;
}

absl::Status PeerGone(std::string_view channel, std::string_view detail) {
  if (detail.empty()) return Unavailable("peer of channel {} is gone", channel);
  return Unavailable("peer of channel {} is gone ({})", channel, detail);
}

std::string EncodeCause(const absl::Status& cause) {
  std::string reason = ReasonOf(cause).substr(0, kMaxReasonBytes);
  std::string encoded;
  encoded += static_cast<char>(cause.code());
  encoded += static_cast<char>(reason.size());
  encoded += reason;
  size_t room = kMaxCauseBytes - encoded.size();
  encoded.append(cause.message().data(), std::min<size_t>(room, cause.message().size()));
  return encoded;
}

absl::Status DecodeCause(std::string_view encoded) {
  size_t reason_bytes = encoded.size() < 2 ? 0 : static_cast<uint8_t>(encoded[1]);
  int code = encoded.empty() ? 0 : static_cast<uint8_t>(encoded[0]);
  if (encoded.size() < 2 + reason_bytes || encoded.size() > kMaxCauseBytes || code < 1 ||
      code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return Unavailable("the peer gave no legible cause");
  }
  absl::Status status(static_cast<absl::StatusCode>(code),
                      std::string(encoded.substr(2 + reason_bytes)));
  if (reason_bytes == 0) return status;
  return WithReason(std::move(status), encoded.substr(2, reason_bytes));
}

absl::Status AbortedByPeer(std::string_view encoded) {
  absl::Status cause = DecodeCause(encoded);
  // A cause that runs through several workers is not wrapped at each.
  constexpr std::string_view kPrefix = "aborted by the peer";
  std::string_view message(cause.message().data(), cause.message().size());
  return message.starts_with(kPrefix) ? cause : Annotate(cause, kPrefix);
}

std::string EncodeAbort(const absl::Status& cause) {
  std::string body = EncodeCause(cause);
  std::string encoded{kAbortByte, static_cast<char>(body.size() & 0xff),
                      static_cast<char>(body.size() >> 8)};
  return encoded + body;
}

absl::Status ControlReader::Feed(std::string_view bytes, size_t* acks, absl::Status* abort) {
  while (!bytes.empty() && partial_.empty()) {
    if (bytes[0] == kAckByte) {
      ++*acks;
      bytes.remove_prefix(1);
    } else if (bytes[0] == kAbortByte) {
      partial_ = kAbortByte;
      bytes.remove_prefix(1);
    } else {
      return Unavailable("the peer does not speak the channel protocol (byte 0x{:02x})",
                         static_cast<uint8_t>(bytes[0]));
    }
  }
  if (partial_.empty()) return absl::OkStatus();
  partial_.append(bytes.substr(0, kAbortHeaderBytes + kMaxCauseBytes));
  if (partial_.size() < kAbortHeaderBytes) return absl::OkStatus();
  size_t body = static_cast<uint8_t>(partial_[1]) + 256u * static_cast<uint8_t>(partial_[2]);
  if (body > kMaxCauseBytes) return Unavailable("the peer sent an abort of {} bytes", body);
  if (partial_.size() >= kAbortHeaderBytes + body) {
    *abort = AbortedByPeer(std::string_view(partial_).substr(kAbortHeaderBytes, body));
  }
  return absl::OkStatus();
}

}  // namespace pipedream
