#include "worker/engine/span_recorder.h"

#include <algorithm>

namespace pipedream {

std::vector<RecordedSpan> SpanRecorder::Recorded() const {
  std::vector<RecordedSpan> out;
  const uint64_t kept = std::min<uint64_t>(recorded_, ring_.size());
  out.reserve(kept);
  for (uint64_t k = recorded_ - kept; k < recorded_; ++k) out.push_back(ring_[k % ring_.size()]);
  return out;
}

std::vector<Span> SpansOf(const Peer& worker, const std::vector<RecordedSpan>& recorded,
                          Duration origin) {
  std::vector<Span> spans;
  for (const RecordedSpan& span : recorded) {
    if (IsReceive(span.instruction.op)) continue;
    const Duration start = IsCollective(span.instruction.op) ? span.begun : span.started;
    if (span.ended <= start) continue;
    spans.push_back(
        {worker, span.instruction, ToSeconds(start - origin), ToSeconds(span.ended - origin)});
  }
  return spans;
}

}  // namespace pipedream
