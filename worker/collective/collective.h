// All-reduce among the replicas of a stage, or among all workers of a job.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "worker/transport/channel.h"

namespace pipedream {

// Collectives run in program order, one at a time: Start, then Advance until it says true.
// Deterministic: the order of additions depends only on the number of members and the length.
// Threads: the stage's executor only; Abort from any thread.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int size() const = 0;
  // Begins the sum over all members of `data`, in place. `data` stays alive and untouched by the
  // caller until done; all members give the same length. REQUIRES: nothing is in progress.
  virtual absl::Status StartSum(std::span<float> data) = 0;
  virtual absl::Status StartSum(std::span<double> data) = 0;
  // Moves on without blocking; true when the sum is complete.
  virtual absl::StatusOr<bool> Advance() = 0;
  // Blocks until Advance could make progress, or `timeout`.
  virtual void Wait(Duration timeout) = 0;
  virtual void Abort(const absl::Status& cause) = 0;
};

// Ring all-reduce (reduce-scatter, then all-gather; Patarasuk and Yuan, 2009) of member `rank` of
// `size`, over the channel to rank + 1 and from rank - 1. size == 1 needs no channels.
std::unique_ptr<Collective> MakeRingCollective(int rank, int size,
                                               std::unique_ptr<SendChannel> to_next,
                                               std::unique_ptr<ReceiveChannel> from_previous);

}  // namespace pipedream
