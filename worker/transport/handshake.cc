#include "worker/transport/handshake.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/status.h"
#include "worker/transport/failure.h"
#include "worker/transport/slot_ring.h"
#include "worker/transport/socket.h"

namespace pipedream {
namespace {

constexpr std::string_view kHelloMagic = "pdpd";
constexpr uint16_t kVersion = 1;
constexpr size_t kPrefixBytes = 8;  // magic 4, version 2, bytes of the rest 2
constexpr size_t kMaxTextBytes = 512;
constexpr size_t kReplyHeaderBytes = 8;  // magic 4, refused 1, zero 1, bytes of the cause 2

template <typename T>
void Put(std::string* out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof bytes);
}

void PutText(std::string* out, std::string_view text) {
  Put<uint16_t>(out, static_cast<uint16_t>(text.size()));
  out->append(text);
}

// Takes values off the front; remembers whether there were enough bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Take() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string TakeText() {
    size_t size = Take<uint16_t>();
    if (size > rest_.size() || size > kMaxTextBytes) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool Finished() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

absl::Status CheckOptions(const ChannelOptions& options) {
  if (options.name.empty() || options.name.size() > kMaxTextBytes) {
    return InvalidArgument("channel name of {} bytes; expected 1 to {}", options.name.size(),
                           kMaxTextBytes);
  }
  if (options.secret.size() > kMaxTextBytes) {
    return InvalidArgument("channel {}: secret of {} bytes; expected at most {}", options.name,
                           options.secret.size(), kMaxTextBytes);
  }
  return CheckSlotSizes(options.name, options.slots, options.max_message_bytes);
}

std::string EncodeHello(const Hello& hello) {
  const ChannelOptions& options = hello.options;
  std::string body;
  Put<uint8_t>(&body, static_cast<uint8_t>(hello.kind));
  Put<uint64_t>(&body, options.slots);
  Put<uint64_t>(&body, options.max_message_bytes);
  Put<int64_t>(&body, std::chrono::ceil<std::chrono::milliseconds>(options.timeout).count());
  PutText(&body, options.name);
  PutText(&body, options.secret);
  std::string out(kHelloMagic);
  Put<uint16_t>(&out, kVersion);
  Put<uint16_t>(&out, static_cast<uint16_t>(body.size()));
  return out + body;
}

absl::StatusOr<size_t> HelloBytes(std::string_view begin) {
  size_t known = std::min(begin.size(), kHelloMagic.size());
  if (begin.substr(0, known) != kHelloMagic.substr(0, known)) {
    return InvalidArgument("not a worker of this system");
  }
  if (begin.size() < kPrefixBytes) return 0;
  Reader reader(begin.substr(kHelloMagic.size()));
  uint16_t version = reader.Take<uint16_t>();
  if (version != kVersion) {
    return FailedPrecondition(
        "the dialling worker speaks version {} of the data protocol, this worker version {}: run "
        "the same release on both",
        version, kVersion);
  }
  size_t total = kPrefixBytes + reader.Take<uint16_t>();
  if (total > kMaxHelloBytes) return InvalidArgument("a greeting of {} bytes", total);
  return total;
}

absl::StatusOr<Hello> DecodeHello(std::string_view whole) {
  Reader reader(whole.substr(std::min(kPrefixBytes, whole.size())));
  Hello hello;
  uint8_t kind = reader.Take<uint8_t>();
  hello.options.slots = reader.Take<uint64_t>();
  hello.options.max_message_bytes = reader.Take<uint64_t>();
  int64_t timeout_ms = reader.Take<int64_t>();
  hello.options.name = reader.TakeText();
  hello.options.secret = reader.TakeText();
  if (!reader.Finished()) return InvalidArgument("a malformed greeting");
  constexpr int64_t kLongestMs = 3'600'000;
  hello.options.timeout = std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kLongestMs));
  hello.kind = static_cast<TransportKind>(kind);
  if (hello.kind != TransportKind::kShm && hello.kind != TransportKind::kTcp) {
    return InvalidArgument("channel {}: transport number {}", hello.options.name, kind);
  }
  PD_RETURN_IF_ERROR(CheckOptions(hello.options));
  return hello;
}

std::string EncodeReply(const absl::Status& verdict) {
  std::string cause = verdict.ok() ? std::string() : EncodeCause(verdict);
  std::string out(kHelloMagic);
  Put<uint8_t>(&out, verdict.ok() ? 0 : 1);
  Put<uint8_t>(&out, 0);
  Put<uint16_t>(&out, static_cast<uint16_t>(cause.size()));
  return out + cause;
}

absl::Status ReadReply(int fd, UniqueFd* received, Duration deadline,
                       const Cancellation& operation) {
  char header[kReplyHeaderBytes];
  PD_ASSIGN_OR_RETURN(size_t got, ReadWithFd(fd, header, received, deadline, operation));
  PD_RETURN_IF_ERROR(ReadExactly(fd, std::span(header).subspan(got), deadline, operation));
  Reader reader({header, sizeof header});
  uint32_t magic = reader.Take<uint32_t>();
  bool refused = reader.Take<uint8_t>() != 0;
  reader.Take<uint8_t>();
  size_t bytes = reader.Take<uint16_t>();
  if (std::memcmp(&magic, kHelloMagic.data(), sizeof magic) != 0 || bytes > kMaxCauseBytes) {
    return Unavailable("the peer does not speak the data protocol");
  }
  if (!refused) return absl::OkStatus();
  std::string cause(bytes, '\0');
  PD_RETURN_IF_ERROR(ReadExactly(fd, std::span(cause), deadline, operation));
  absl::Status status = DecodeCause(cause);
  return status;
}

bool SecretsEqual(std::string_view a, std::string_view b) {
  // The length is no secret; the bytes are.
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

absl::Status CompareOptions(const ChannelOptions& own, const ChannelOptions& theirs) {
  if (!SecretsEqual(own.secret, theirs.secret)) {
    return absl::PermissionDeniedError(fmt::format(
        "channel {}: the sender presents another secret than the receiver expects", own.name));
  }
  if (own.slots != theirs.slots || own.max_message_bytes != theirs.max_message_bytes) {
    return FailedPrecondition(
        "channel {}: the sender asks for {} slots of {} bytes, the receiver for {} slots of {} "
        "bytes: both must follow the same plan",
        own.name, theirs.slots, theirs.max_message_bytes, own.slots, own.max_message_bytes);
  }
  return absl::OkStatus();
}

}  // namespace pipedream
