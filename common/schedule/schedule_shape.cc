#include "common/schedule/schedule_shape.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "common/base/status.h"

namespace pipedream {
namespace {

absl::Status CheckCounts(const ScheduleShape& shape) {
  auto positive = [](std::string_view field, int64_t value) {
    return value >= 1 ? absl::OkStatus()
                      : InvalidArgument("{}: {}, expected at least 1", field, value);
  };
  PD_RETURN_IF_ERROR(positive("minibatches_per_epoch", shape.minibatches_per_epoch));
  PD_RETURN_IF_ERROR(positive("epochs", shape.epochs));
  PD_RETURN_IF_ERROR(positive("microbatches_per_minibatch", shape.microbatches_per_minibatch));
  if (shape.evaluation_microbatches < 0) {
    return InvalidArgument("evaluation_microbatches: {}, expected at least 0",
                           shape.evaluation_microbatches);
  }
  auto count = [&](int64_t per_epoch) { return static_cast<double>(per_epoch) * shape.epochs; };
  double total = count(shape.minibatches_per_epoch) * shape.microbatches_per_minibatch +
                 count(shape.evaluation_microbatches);
  if (total > static_cast<double>(kMaxMicrobatches)) {
    return InvalidArgument(
        "the run has {:.0f} microbatches, expected at most {}: use larger batches "
        "or fewer epochs",
        total, kMaxMicrobatches);
  }
  return absl::OkStatus();
}

absl::Status CheckDevices(const ScheduleShape& shape) {
  if (shape.device_of.empty()) return absl::OkStatus();
  if (shape.device_of.size() != shape.replicas.size()) {
    return InvalidArgument("device_of: {} numbers for {} stages, expected one per stage or none",
                           shape.device_of.size(), shape.stages());
  }
  const int devices = shape.devices();
  std::vector<int> replicas(std::max(devices, 0), 0);
  for (int s = 0; s < shape.stages(); ++s) {
    const int device = shape.device_of[s];
    if (device < 0 || device >= shape.stages()) {
      return InvalidArgument("device_of: stage {} is on device {}, expected 0 to {}", s, device,
                             shape.stages() - 1);
    }
    if (replicas[device] == 0) replicas[device] = shape.replicas[s];
    if (replicas[device] != shape.replicas[s]) {
      return InvalidArgument(
          "replicas: stage {} has {}, another stage of its device {} has {}: the stages of a "
          "device "
          "are replicated together",
          s, shape.replicas[s], device, replicas[device]);
    }
  }
  auto hole = std::find(replicas.begin(), replicas.end(), 0);
  if (hole == replicas.end()) return absl::OkStatus();
  return InvalidArgument("device_of: device {} has no stage", hole - replicas.begin());
}

absl::Status CheckEdges(const ScheduleShape& shape) {
  for (size_t k = 0; k < shape.edges.size(); ++k) {
    const ScheduleEdge& edge = shape.edges[k];
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= shape.stages()) {
      return InvalidArgument("edges: {} to {}, expected a stage and a later one of {} stages",
                             edge.from, edge.to, shape.stages());
    }
    if (k > 0 && !(shape.edges[k - 1].from < edge.from ||
                   (shape.edges[k - 1].from == edge.from && shape.edges[k - 1].to < edge.to))) {
      return InvalidArgument("edges: {} to {} is not in order, or comes twice", edge.from, edge.to);
    }
  }
  for (size_t k = 0; k < shape.tied_stages.size(); ++k) {
    const int stage = shape.tied_stages[k];
    if (stage < 0 || stage >= shape.stages() || (k > 0 && shape.tied_stages[k - 1] >= stage)) {
      return InvalidArgument("tied_stages: {} is out of order or none of {} stages", stage,
                             shape.stages());
    }
  }
  return absl::OkStatus();
}

}  // namespace

int ScheduleShape::devices() const {
  if (device_of.empty()) return stages();
  return *std::max_element(device_of.begin(), device_of.end()) + 1;
}

absl::Status Validate(const ScheduleShape& shape) {
  if (shape.replicas.empty()) return InvalidArgument("replicas: expected at least one stage");
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.replicas[s] < 1) {
      return InvalidArgument("replicas: stage {} has {}, expected at least 1", s,
                             shape.replicas[s]);
    }
  }
  PD_RETURN_IF_ERROR(CheckCounts(shape));
  if (!shape.warmup.empty() && shape.warmup.size() != shape.replicas.size()) {
    return InvalidArgument("warmup: {} numbers for {} stages, expected one per stage or none",
                           shape.warmup.size(), shape.replicas.size());
  }
  for (int depth : shape.warmup) {
    if (depth < 0) return InvalidArgument("warmup: {}, expected at least 0", depth);
  }
  PD_RETURN_IF_ERROR(CheckDevices(shape));
  return CheckEdges(shape);
}

std::vector<ScheduleEdge> EdgesOf(const ScheduleShape& shape) {
  if (!shape.edges.empty()) return shape.edges;
  std::vector<ScheduleEdge> chain;
  for (int s = 0; s + 1 < shape.stages(); ++s) chain.push_back({s, s + 1, true});
  return chain;
}

int DeviceOf(const ScheduleShape& shape, StageId stage) {
  return shape.device_of.empty() ? stage.value() : shape.device_of[stage.value()];
}

std::vector<StageId> StagesOn(const ScheduleShape& shape, int device) {
  if (shape.device_of.empty()) return {StageId(device)};
  std::vector<StageId> stages;
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.device_of[s] == device) stages.push_back(StageId(s));
  }
  return stages;
}

int ChunkOf(const ScheduleShape& shape, StageId stage) {
  if (shape.device_of.empty()) return 0;
  return static_cast<int>(std::count(shape.device_of.begin(),
                                     shape.device_of.begin() + stage.value(),
                                     shape.device_of[stage.value()]));
}

std::vector<Peer> WorkersOf(const ScheduleShape& shape) {
  std::vector<Peer> workers;
  for (int device = 0; device < shape.devices(); ++device) {
    StageId first = StagesOn(shape, device).front();
    for (int q = 0; q < shape.replicas[first.value()]; ++q)
      workers.push_back({first, ReplicaId(q)});
  }
  return workers;
}

int WorkerIndex(const ScheduleShape& shape, const Peer& at) {
  const int device = DeviceOf(shape, at.stage);
  if (shape.device_of.empty()) {
    return std::accumulate(shape.replicas.begin(), shape.replicas.begin() + device,
                           at.replica.value());
  }
  int index = at.replica.value();
  for (int d = 0; d < device; ++d) index += shape.replicas[StagesOn(shape, d).front().value()];
  return index;
}

ReplicaId ReplicaOf(const ScheduleShape& shape, StageId stage, MicrobatchId microbatch) {
  return ReplicaId(static_cast<int>(microbatch.value() % shape.replicas[stage.value()]));
}

int WarmupDepth(const ScheduleShape& shape, StageId stage) {
  if (!shape.warmup.empty()) return shape.warmup[stage.value()];
  int workers = std::accumulate(shape.replicas.begin() + stage.value(), shape.replicas.end(), 0);
  return (workers - 1) / shape.replicas[stage.value()];
}

}  // namespace pipedream
