#include "common/graph/cuts.h"

#include <algorithm>
#include <numeric>

#include "common/graph/value_flow.h"

namespace pipedream {

std::vector<CutInfo> PrefixCuts(const TrainingGraph& training) {
  int count = std::max(training.forward_nodes - 1, 0);
  std::vector<int> position(training.forward_nodes);
  std::iota(position.begin(), position.end(), 0);
  std::vector<ValueFlow> flow = FlowOf(training, PlacesOf(training, position, SumPlace::kFirst));

  // Changes of the sums from one cut to the next; a value counts for the cuts [from, to).
  std::vector<CutInfo> cuts(count + 1);
  auto count_bytes = [&](int64_t CutInfo::*sum, int from, int to, int64_t bytes) {
    if (from >= to) return;
    cuts[from].*sum += bytes;
    cuts[to].*sum -= bytes;
  };
  for (size_t i = 0; i < flow.size(); ++i) {
    const Value& value = training.graph.values()[i];
    const ValueFlow& f = flow[i];
    if (f.read.empty()) continue;
    const int first = f.read.front(), last = f.read.back();
    if (value.kind == ValueKind::kParameter) {
      for (int c = first; c < last; ++c) {
        if (cuts[c].legal()) cuts[c].shared_parameter = ValueId(static_cast<int32_t>(i));
      }
    } else if (value.kind == ValueKind::kComputed && f.gradient) {
      count_bytes(&CutInfo::gradient_bytes, first, f.made, value.bytes());
    } else if (value.kind == ValueKind::kComputed) {
      count_bytes(&CutInfo::forward_bytes, f.made, last, value.bytes());
    }
  }
  for (int c = 1; c < count; ++c) {
    cuts[c].forward_bytes += cuts[c - 1].forward_bytes;
    cuts[c].gradient_bytes += cuts[c - 1].gradient_bytes;
  }
  cuts.resize(count);
  return cuts;
}

}  // namespace pipedream
