// Notes when a worker's instructions really ran: for pictures of real runs, and to hold the
// simulator against them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/schedule/trace.h"

namespace pipedream {

// Between `begun` and `started` the instruction waited for a message, a slot or other workers; from
// then on it ran.
struct RecordedSpan {
  Instruction instruction;
  Duration begun{};    // its turn came: it was tried for the first time
  Duration started{};  // the try that went through
  Duration ended{};
  double run_s() const { return ToSeconds(ended - started); }
};

// Keeps the last `capacity` instructions; recording allocates nothing and takes no lock.
// Threads: the executor's while it runs, any one afterwards.
class SpanRecorder {
 public:
  // REQUIRES: capacity >= 1.
  explicit SpanRecorder(size_t capacity) : ring_(capacity) {}

  void Record(const RecordedSpan& span) { ring_[recorded_++ % ring_.size()] = span; }

  // In all, those that newer ones have overwritten included.
  uint64_t recorded() const { return recorded_; }
  // What is kept, oldest first.
  std::vector<RecordedSpan> Recorded() const;

 private:
  std::vector<RecordedSpan> ring_;
  uint64_t recorded_ = 0;
};

// As Simulate gives them, times since `origin`: receives, and what took no time, are absent, a send
// is what its worker did for it, a collective includes waiting for the other members (the sum is
// made meanwhile).
std::vector<Span> SpansOf(const Peer& worker, const std::vector<RecordedSpan>& recorded,
                          Duration origin);

}  // namespace pipedream
