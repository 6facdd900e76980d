// Measures what a pair of open channels can carry, for the planner's topology. One side measures,
// the other answers; kProbe messages are numbered from 0 in each direction, so a pair of channels
// serves one measurement and nothing before it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"
#include "worker/transport/channel.h"

namespace pipedream {

struct ProbeOptions {
  int latency_rounds = 32;
  int64_t max_bytes = int64_t{256} << 20;  // sent in all; at least one message is
  // Of sending; stops early once the next, twice as large burst would not fit.
  Duration max_time = std::chrono::milliseconds(500);
};

struct LinkMeasurement {
  double bandwidth_bytes_per_s = 0;  // one way, out of the measuring side
  double latency_s = 0;              // one way, of a message of one byte
  int64_t bytes = 0;                 // sent for it
};

// Latency is half the median round trip; bandwidth that of the last of ever larger bursts, less the
// latency of its reply. kDeadlineExceeded at `deadline` (on SystemClock), or the channels' errors.
// kInvalidArgument if a slot holds no byte.
absl::StatusOr<LinkMeasurement> MeasureLink(SendChannel& out, ReceiveChannel& in,
                                            const ProbeOptions& options, Duration deadline);
// Answers until the measuring side is done.
absl::Status AnswerProbe(ReceiveChannel& in, SendChannel& out, Duration deadline);

}  // namespace pipedream
