// Profile, topology and plan messages <-> common/plan values. FromProto: kInvalidArgument names the
// field; indices are in range, every node is in one stage, every stage has a worker.
#pragma once

#include <absl/status/statusor.h>

#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/plan/topology.h"
#include "pipedream/v1/plan.pb.h"

namespace pipedream {

v1::NodeProfile ToProto(const NodeProfile& node);
absl::StatusOr<NodeProfile> FromProto(const v1::NodeProfile& message);
v1::ProfileTensor ToProto(const ProfileTensor& tensor);
absl::StatusOr<ProfileTensor> FromProto(const v1::ProfileTensor& message);
v1::Profile ToProto(const Profile& profile);
absl::StatusOr<Profile> FromProto(const v1::Profile& message);

v1::DeviceInfo ToProto(const DeviceInfo& device);
absl::StatusOr<DeviceInfo> FromProto(const v1::DeviceInfo& message);
v1::PortInfo ToProto(const PortInfo& port);
absl::StatusOr<PortInfo> FromProto(const v1::PortInfo& message);
v1::LinkInfo ToProto(const LinkInfo& link);
absl::StatusOr<LinkInfo> FromProto(const v1::LinkInfo& message);
v1::ClusterTopology ToProto(const ClusterTopology& topology);
absl::StatusOr<ClusterTopology> FromProto(const v1::ClusterTopology& message);

v1::MemoryPrediction ToProto(const MemoryPrediction& memory);
absl::StatusOr<MemoryPrediction> FromProto(const v1::MemoryPrediction& message);
v1::PlanStage ToProto(const PlanStage& stage);
absl::StatusOr<PlanStage> FromProto(const v1::PlanStage& message);
v1::PlanAlternative ToProto(const PlanAlternative& alternative);
absl::StatusOr<PlanAlternative> FromProto(const v1::PlanAlternative& message);
v1::Plan ToProto(const Plan& plan);
absl::StatusOr<Plan> FromProto(const v1::Plan& message);

}  // namespace pipedream
