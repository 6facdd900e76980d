#include "worker/transport/probe.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace pipedream {
namespace {

// The first byte of a message says what the other side is to do.
enum class Ask : uint8_t { kNothing = 'n', kReply = 'r', kFinish = 'd' };

constexpr size_t kFirstBurstBytes = size_t{64} << 10;
constexpr int kMaxLatencyRounds = 10'000;

Duration Left(Duration deadline) {
  return std::max(deadline - SystemClock()->Now(), Duration::zero());
}

// One direction's channel and its running number.
class Prober {
 public:
  Prober(SendChannel& out, ReceiveChannel& in, Duration deadline)
      : out_(out), in_(in), deadline_(deadline) {}

  absl::Status Send(Ask ask, size_t bytes) {
    while (true) {
      PD_ASSIGN_OR_RETURN(std::optional<std::span<std::byte>> slot, out_.TryAcquire());
      if (slot.has_value()) {
        // Written whole, as a tensor would be.
        std::memset(slot->data(), static_cast<int>(ask), bytes);
        return out_.Commit({MessageKind::kProbe, sent_++}, bytes);
      }
      if (!out_.Wait(Left(deadline_))) return DeadlineExceeded("link probe: no free slot in time");
    }
  }

  absl::StatusOr<Ask> Receive() {
    MessageKey key{MessageKind::kProbe, received_};
    while (true) {
      PD_ASSIGN_OR_RETURN(std::optional<std::span<const std::byte>> message, in_.TryReceive(key));
      if (message.has_value()) {
        ++received_;
        uint8_t ask = message->empty() ? 0 : static_cast<uint8_t>((*message)[0]);
        in_.Release();
        return static_cast<Ask>(ask);
      }
      if (!in_.Wait(Left(deadline_))) return DeadlineExceeded("link probe: no answer in time");
    }
  }

  // Sends `bytes` in messages as large as they may be; the time until the last one's reply.
  absl::StatusOr<Duration> Burst(int64_t bytes) {
    Duration start = SystemClock()->Now();
    while (bytes > 0) {
      int64_t part = std::min<int64_t>(bytes, static_cast<int64_t>(out_.max_message_bytes()));
      bytes -= part;
      PD_RETURN_IF_ERROR(Send(bytes == 0 ? Ask::kReply : Ask::kNothing, static_cast<size_t>(part)));
    }
    PD_RETURN_IF_ERROR(Receive().status());
    return SystemClock()->Now() - start;
  }

 private:
  SendChannel& out_;
  ReceiveChannel& in_;
  const Duration deadline_;
  int64_t sent_ = 0;
  int64_t received_ = 0;
};

}  // namespace

absl::StatusOr<LinkMeasurement> MeasureLink(SendChannel& out, ReceiveChannel& in,
                                            const ProbeOptions& options, Duration deadline) {
  if (out.max_message_bytes() == 0) return InvalidArgument("link probe: the slots hold no byte");
  Prober prober(out, in, deadline);
  LinkMeasurement result;
  std::vector<Duration> round_trips;
  Duration start = SystemClock()->Now();
  int rounds = std::clamp(options.latency_rounds, 1, kMaxLatencyRounds);
  // A slow link gets fewer rounds.
  while (static_cast<int>(round_trips.size()) < rounds &&
         (round_trips.empty() || SystemClock()->Now() - start < options.max_time / 2)) {
    PD_ASSIGN_OR_RETURN(Duration trip, prober.Burst(1));
    round_trips.push_back(trip);
    ++result.bytes;
  }
  auto middle = round_trips.begin() + static_cast<std::ptrdiff_t>(round_trips.size() / 2);
  std::nth_element(round_trips.begin(), middle, round_trips.end());
  result.latency_s = ToSeconds(*middle) / 2;

  auto burst = static_cast<int64_t>(kFirstBurstBytes);
  burst = std::min(burst, std::max<int64_t>(options.max_bytes, 1));
  Duration spent{};
  while (true) {
    PD_ASSIGN_OR_RETURN(Duration took, prober.Burst(burst));
    result.bytes += burst;
    spent += took;
    double one_way = ToSeconds(took) - result.latency_s;
    if (one_way <= 0) one_way = std::max(ToSeconds(took), 1e-9);
    result.bandwidth_bytes_per_s = static_cast<double>(burst) / one_way;
    burst *= 2;
    if (result.bytes + burst > options.max_bytes || spent + 2 * took > options.max_time) break;
  }
  PD_RETURN_IF_ERROR(prober.Send(Ask::kFinish, 1));
  return result;
}

absl::Status AnswerProbe(ReceiveChannel& in, SendChannel& out, Duration deadline) {
  if (out.max_message_bytes() == 0) return InvalidArgument("link probe: the slots hold no byte");
  Prober prober(out, in, deadline);
  while (true) {
    PD_ASSIGN_OR_RETURN(Ask ask, prober.Receive());
    switch (ask) {
      case Ask::kNothing:
        break;
      case Ask::kReply:
        PD_RETURN_IF_ERROR(prober.Send(Ask::kNothing, 1));
        break;
      case Ask::kFinish:
        return absl::OkStatus();
      default:
        return Internal("link probe: request {} is unknown", static_cast<int>(ask));
    }
  }
}

}  // namespace pipedream
