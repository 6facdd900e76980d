#include "common/graph/cuts.h"

#include <algorithm>
#include <numeric>

#include "common/graph/value_flow.h"

namespace pipedream {

namespace {

std::vector<ValueFlow> FlowByPosition(const TrainingGraph& training) {
  std::vector<int> position(training.forward_nodes);
  std::iota(position.begin(), position.end(), 0);
  return FlowOf(training, PlacesOf(training, position, SumPlace::kFirst));
}

}  // namespace

std::vector<CrossingTensor> CrossingTensors(const TrainingGraph& training) {
  std::vector<CrossingTensor> out;
  const std::vector<ValueFlow> flow = FlowByPosition(training);
  for (size_t i = 0; i < flow.size(); ++i) {
    if (training.graph.values()[i].kind != ValueKind::kComputed) continue;
    CrossingTensor tensor{ValueId(static_cast<int32_t>(i)), flow[i].made, flow[i].read,
                          flow[i].gradient};
    std::erase(tensor.readers, tensor.made);
    if (!tensor.readers.empty()) out.push_back(std::move(tensor));
  }
  return out;
}

std::vector<std::vector<int>> TiedNodes(const TrainingGraph& training) {
  std::vector<std::vector<int>> out;
  const std::vector<ValueFlow> flow = FlowByPosition(training);
  for (size_t i = 0; i < flow.size(); ++i) {
    if (training.graph.values()[i].kind == ValueKind::kParameter && flow[i].read.size() > 1)
      out.push_back(flow[i].read);
  }
  return out;
}

std::vector<CutInfo> PrefixCuts(const TrainingGraph& training) {
  int count = std::max(training.forward_nodes - 1, 0);
  std::vector<ValueFlow> flow = FlowByPosition(training);

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
