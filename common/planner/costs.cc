#include "common/planner/costs.h"

#include <algorithm>

namespace pipedream {

void NodeSums::Add(const NodeProfile& node) {
  compute_s += node.forward_s + node.input_gradient_s + node.weight_gradient_s;
  forward_s += node.forward_s;
  weight_gradient_s += node.weight_gradient_s;
  optimizer_s += node.optimizer_s;
  parameter_bytes += node.parameter_bytes;
  state_bytes += node.state_bytes;
  saved_bytes += node.saved_bytes;
  workspace_bytes = std::max(workspace_bytes, node.workspace_bytes);
}

NodeSums CostModel::Sums(const StagePart& part) const {
  NodeSums sums;
  for (int n = part.begin; n < part.end; ++n) AddNode(n, &sums);
  return sums;
}

void CostModel::AddNode(int node, NodeSums* sums) const {
  const NodeProfile& profile = profile_.nodes[node];
  sums->Add(profile);
  if (!schedule_.recompute) return;
  if (static_cast<size_t>(node) < schedule_.checkpoints.size() && schedule_.checkpoints[node]) {
    sums->saved_bytes += std::max<int64_t>(0, profile.output_bytes - profile.saved_bytes);
    return;
  }
  sums->compute_s += profile.forward_s;
  sums->saved_bytes -= profile.saved_bytes;
  sums->again_bytes += profile.saved_bytes;
}

int64_t CostModel::CutBytes(int begin) const {
  if (begin <= 0 || begin >= nodes()) return 0;
  const NodeProfile& before = profile_.nodes[begin - 1];
  return before.cut_forward_bytes + before.cut_gradient_bytes;
}

double CostModel::ComputeSeconds(const NodeSums& sums, int replicas) const {
  // An asynchronous replica updates after each of its microbatches, a flush once per minibatch.
  const double updates = schedule_.by_minibatch ? 1.0 / MicrobatchesPerReplica(replicas) : 1.0;
  return sums.compute_s + sums.optimizer_s * updates;
}

double CostModel::SyncSeconds(const NodeSums& sums, int replicas, double bandwidth) const {
  if (replicas == 1) return 0;
  return 4.0 * (replicas - 1) / replicas * static_cast<double>(sums.parameter_bytes) / bandwidth;
}

StageTimes CostModel::Times(const NodeSums& sums, const StagePart& part, double bandwidth) const {
  StageTimes times;
  const auto cut = static_cast<double>(CutBytes(part.begin));
  if (cut > 0) times.receive_s = cut / (bandwidth * part.replicas);
  const double compute = ComputeSeconds(sums, part.replicas);
  const double sync = SyncSeconds(sums, part.replicas, bandwidth);
  if (schedule_.by_minibatch) {
    const double microbatches = schedule_.microbatches;
    times.compute_s = compute * MicrobatchesPerReplica(part.replicas) / microbatches;
    times.sync_s = sync / microbatches;
    times.bottleneck_s = std::max(times.compute_s + times.sync_s, times.receive_s);
  } else {
    times.compute_s = compute / part.replicas;
    times.sync_s = sync / part.replicas;
    times.bottleneck_s = std::max({times.compute_s, times.sync_s, times.receive_s});
  }
  return times;
}

double CostModel::BytesMoved(const NodeSums& sums, const StagePart& part) const {
  const double reduced = 2.0 * (part.replicas - 1) * static_cast<double>(sums.parameter_bytes);
  return static_cast<double>(CutBytes(part.begin)) * schedule_.microbatches +
         (schedule_.by_minibatch ? reduced : reduced / part.replicas);
}

int CostModel::Warmup(int stage, int replicas, int workers) const {
  if (schedule_.forwards_first) return MicrobatchesPerReplica(replicas);
  const int rule = schedule_.warmup.empty() ? (workers - 1) / replicas : schedule_.warmup[stage];
  return schedule_.by_minibatch ? std::min(rule, MicrobatchesPerReplica(replicas)) : rule;
}

int CostModel::Versions(int warmup) const { return schedule_.by_minibatch ? 1 : warmup + 1; }

StageHoldings CostModel::Holdings(const StagePart& part, int warmup) const {
  const int own = MicrobatchesPerReplica(part.replicas);
  return {schedule_.by_minibatch ? std::min(warmup + 1, own) : warmup + 1, Versions(warmup), 1,
          false};
}

MemoryPrediction CostModel::Memory(const NodeSums& sums, const StagePart& part,
                                   const StageHoldings& holdings) const {
  // Beside the sums, one microbatch's gradient where several make a sum.
  const bool accumulates = schedule_.microbatches > 1 || part.replicas > 1;
  MemoryPrediction memory;
  memory.weights = holdings.versions * sums.parameter_bytes + sums.state_bytes;
  memory.gradients = (holdings.gradients + (accumulates ? 1 : 0)) * sums.parameter_bytes;
  memory.optimizer = profile_.optimizer_state_tensors * sums.parameter_bytes;
  if (holdings.undo) memory.optimizer += memory.optimizer + sums.state_bytes;
  memory.activations = holdings.slots * sums.saved_bytes;
  memory.buffers = schedule_.channel_slots * (CutBytes(part.begin) + CutBytes(part.end));
  memory.workspace = sums.workspace_bytes;
  if (schedule_.recompute) {  // what enters the stage is kept instead
    if (part.begin > 0)
      memory.activations += holdings.slots * profile_.nodes[part.begin - 1].cut_forward_bytes;
    memory.workspace += sums.again_bytes;
  }
  return memory;
}

double CostModel::StepSeconds(const Partition& partition, double bandwidth) const {
  double bottleneck = 0, steady = 0, sync = 0;
  for (const StagePart& part : partition) {
    const NodeSums sums = Sums(part);
    const StageTimes times = Times(sums, part, bandwidth);
    bottleneck = std::max(bottleneck, times.bottleneck_s);
    steady = std::max({steady, times.compute_s, times.receive_s});
    sync = std::max(sync, SyncSeconds(sums, part.replicas, bandwidth));
  }
  if (!schedule_.drains) return schedule_.microbatches * bottleneck;
  const auto slots = schedule_.microbatches + static_cast<int>(partition.size()) - 1;
  return slots * steady + sync;
}

}  // namespace pipedream
