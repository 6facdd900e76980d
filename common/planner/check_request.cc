#include "common/planner/check_request.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/schedule/schedules.h"

namespace pipedream {
namespace {

absl::Status CheckTopology(const ClusterTopology& topology) {
  const int devices = static_cast<int>(topology.devices.size());
  if (devices == 0) return InvalidArgument("topology: has no devices; start a worker");
  for (const LinkInfo& link : topology.links) {
    if (link.from < 0 || link.to < 0 || link.from >= devices || link.to >= devices) {
      return InvalidArgument("topology: a link joins devices {} and {}, there are {}", link.from,
                             link.to, devices);
    }
    if (!(link.bandwidth_bytes_per_s > 0) || !std::isfinite(link.bandwidth_bytes_per_s)) {
      return InvalidArgument("topology: link {} -> {} has bandwidth {} bytes/s, must be positive",
                             topology.devices[link.from].worker_id,
                             topology.devices[link.to].worker_id, link.bandwidth_bytes_per_s);
    }
  }
  for (const DeviceInfo& device : topology.devices) {
    if (!(device.speed > 0) || !std::isfinite(device.speed)) {
      return InvalidArgument("topology: worker {} has speed {}, must be positive",
                             device.worker_id, device.speed);
    }
  }
  const int ports = static_cast<int>(topology.ports.size());
  for (const LinkInfo& link : topology.links) {
    if (link.out_port >= ports || link.in_port >= ports) {
      return InvalidArgument("topology: link {} -> {} names port {}, there are {}",
                             topology.devices[link.from].worker_id,
                             topology.devices[link.to].worker_id,
                             std::max(link.out_port, link.in_port), ports);
    }
  }
  for (const PortInfo& port : topology.ports) {
    if (!(port.bandwidth_bytes_per_s > 0)) {
      return InvalidArgument("topology: port '{}' has bandwidth {} bytes/s, must be positive",
                             port.name, port.bandwidth_bytes_per_s);
    }
  }
  if (devices > 1 && topology.links.empty()) {
    return InvalidArgument("topology: {} devices, but no link between them was measured", devices);
  }
  return absl::OkStatus();
}

absl::Status CheckProfiles(const PlanRequest& request) {
  if (request.profiles.empty()) return InvalidArgument("profiles: none given");
  const int64_t wanted =
      (request.batch_size + request.microbatches - 1) / std::max(request.microbatches, 1);
  for (const Profile& profile : request.profiles) {
    if (profile.nodes.empty()) {
      return InvalidArgument("profiles: that of '{}' has no nodes", profile.device_kind);
    }
    if (profile.nodes.size() != request.profiles[0].nodes.size()) {
      return InvalidArgument("profiles: those of '{}' and '{}' are of different models",
                             profile.device_kind, request.profiles[0].device_kind);
    }
    if (request.batch_size > 0 && profile.microbatch_size != wanted) {
      return InvalidArgument(
          "profiles: that of '{}' was measured with microbatches of {} samples, the job's have {}",
          profile.device_kind, profile.microbatch_size, wanted);
    }
    const int count = static_cast<int>(profile.nodes.size());
    const auto known = [&](int node) { return node >= 0 && node < count; };
    for (const ProfileTensor& tensor : profile.tensors) {
      if (!tensor.late.empty() && std::ranges::all_of(tensor.early, known) &&
          std::ranges::all_of(tensor.late, known) && std::ranges::all_of(tensor.kept_by, known))
        continue;
      return InvalidArgument(
          "profiles: that of '{}' has a tensor between nodes that it lacks; it has nodes 0 to {}",
          profile.device_kind, count - 1);
    }
    for (const std::vector<int>& tie : profile.ties) {
      if (std::ranges::all_of(tie, known)) continue;
      return InvalidArgument("profiles: that of '{}' ties nodes that it lacks; it has 0 to {}",
                             profile.device_kind, count - 1);
    }
    for (const NodeProfile& node : profile.nodes) {
      if (!(node.compute_s() >= 0) || !std::isfinite(node.compute_s())) {
        return InvalidArgument(
            "profiles: node '{}' takes {} s on '{}', must be finite and not "
            "negative",
            node.name, node.compute_s(), profile.device_kind);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<JobSchedule> ScheduleOf(const PlanRequest& request) {
  if (request.table != nullptr) {
    return JobSchedule{.policy = request.table->policy, .table = request.table};
  }
  JobSpec spec;
  spec.schedule = request.schedule;
  spec.chunks = request.chunks;
  return ScheduleOf(spec);
}

absl::Status CheckTable(const PlanRequest& request) {
  const ScheduleShape& shape = request.table->shape;
  PD_RETURN_IF_ERROR(Validate(shape));
  if (request.stages > 0 && request.stages != shape.stages()) {
    return InvalidArgument("stages: {}, but the table of schedule '{}' has {}", request.stages,
                           request.table->name, shape.stages());
  }
  if (request.microbatches != shape.microbatches_per_minibatch) {
    return InvalidArgument("microbatches: {}, but the table of schedule '{}' has {}",
                           request.microbatches, request.table->name,
                           shape.microbatches_per_minibatch);
  }
  const int needed = static_cast<int>(WorkersOf(shape).size());
  const int there =
      request.workers > 0 ? request.workers : static_cast<int>(request.topology.devices.size());
  if (needed > there) {
    return InvalidArgument("workers: the table of schedule '{}' needs {}, {} may be used",
                           request.table->name, needed, there);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSchedule> CheckRequest(const PlanRequest& request) {
  PD_RETURN_IF_ERROR(CheckTopology(request.topology));
  PD_ASSIGN_OR_RETURN(JobSchedule schedule, ScheduleOf(request));
  if (request.microbatches < 1) {
    return InvalidArgument("microbatches: {} must be at least 1", request.microbatches);
  }
  if (StepsByRound(schedule.policy) && request.microbatches > 1) {
    return InvalidArgument("microbatches: {} does not go with schedule '{}'; use 1",
                           request.microbatches, request.schedule);
  }
  PD_RETURN_IF_ERROR(CheckProfiles(request));
  if (request.table != nullptr) PD_RETURN_IF_ERROR(CheckTable(request));
  for (const DeviceInfo& device : request.topology.devices) {
    const bool known = std::ranges::any_of(request.profiles, [&](const Profile& profile) {
      return profile.device_kind == device.kind;
    });
    if (!known) {
      return InvalidArgument("profiles: none for the kind of worker {}, '{}'", device.worker_id,
                             device.kind);
    }
  }
  const int devices = static_cast<int>(request.topology.devices.size());
  if (request.workers < 0 || request.workers > devices) {
    return InvalidArgument("workers: {} asked for, {} there", request.workers, devices);
  }
  if (request.stages < 0) return InvalidArgument("stages: {} must not be negative", request.stages);
  if (request.max_replicas < 0) {
    return InvalidArgument("max_replicas: {} must not be negative", request.max_replicas);
  }
  if (request.channel_slots < 1) {
    return InvalidArgument("channel_slots: {} must be at least 1", request.channel_slots);
  }
  if (!request.warmup.empty() && request.warmup.size() != static_cast<size_t>(request.stages)) {
    return InvalidArgument("warmup: {} numbers given, one per stage is needed; stages is {}",
                           request.warmup.size(), request.stages);
  }
  for (const int warmup : request.warmup)
    if (warmup < 0) return InvalidArgument("warmup: {} must not be negative", warmup);
  if (request.stages % schedule.chunks != 0) {
    return InvalidArgument("stages: {}, but schedule '{}' has {} on each device; use a multiple",
                           request.stages, request.schedule, schedule.chunks);
  }
  if (request.schedule == "data_parallel" && request.table == nullptr && request.stages > 1) {
    return InvalidArgument("stages: {}, but schedule 'data_parallel' has one", request.stages);
  }
  return schedule;
}

}  // namespace pipedream
