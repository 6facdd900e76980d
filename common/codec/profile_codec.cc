#include "common/codec/plan_codec.h"

#include "common/codec/field_check.h"
#include "common/codec/lists.h"

namespace pipedream {

v1::NodeProfile ToProto(const NodeProfile& node) {
  v1::NodeProfile message;
  message.set_name(node.name);
  message.set_op(node.op);
  message.set_forward_s(node.forward_s);
  message.set_input_gradient_s(node.input_gradient_s);
  message.set_weight_gradient_s(node.weight_gradient_s);
  message.set_optimizer_s(node.optimizer_s);
  message.set_parameter_bytes(node.parameter_bytes);
  message.set_state_bytes(node.state_bytes);
  message.set_output_bytes(node.output_bytes);
  message.set_saved_bytes(node.saved_bytes);
  message.set_workspace_bytes(node.workspace_bytes);
  message.set_legal_cut(node.legal_cut);
  message.set_cut_forward_bytes(node.cut_forward_bytes);
  message.set_cut_gradient_bytes(node.cut_gradient_bytes);
  return message;
}

absl::StatusOr<NodeProfile> FromProto(const v1::NodeProfile& message) {
  FieldCheck check("NodeProfile");
  check.Text("name", message.name()).Text("op", message.op());
  check.NotNegative("forward_s", message.forward_s());
  check.NotNegative("input_gradient_s", message.input_gradient_s());
  check.NotNegative("weight_gradient_s", message.weight_gradient_s());
  check.NotNegative("optimizer_s", message.optimizer_s());
  check.Count("parameter_bytes", message.parameter_bytes());
  check.Count("state_bytes", message.state_bytes());
  check.Count("output_bytes", message.output_bytes());
  check.Count("saved_bytes", message.saved_bytes());
  check.Count("workspace_bytes", message.workspace_bytes());
  check.Count("cut_forward_bytes", message.cut_forward_bytes());
  check.Count("cut_gradient_bytes", message.cut_gradient_bytes());
  PD_RETURN_IF_ERROR(check.status());
  NodeProfile node;
  node.name = message.name();
  node.op = message.op();
  node.forward_s = message.forward_s();
  node.input_gradient_s = message.input_gradient_s();
  node.weight_gradient_s = message.weight_gradient_s();
  node.optimizer_s = message.optimizer_s();
  node.parameter_bytes = message.parameter_bytes();
  node.state_bytes = message.state_bytes();
  node.output_bytes = message.output_bytes();
  node.saved_bytes = message.saved_bytes();
  node.workspace_bytes = message.workspace_bytes();
  node.legal_cut = message.legal_cut();
  node.cut_forward_bytes = message.cut_forward_bytes();
  node.cut_gradient_bytes = message.cut_gradient_bytes();
  return node;
}

v1::Profile ToProto(const Profile& profile) {
  v1::Profile message;
  message.set_model_hash(profile.model_hash);
  message.set_device_kind(profile.device_kind);
  message.set_microbatch_size(profile.microbatch_size);
  message.set_optimizer_state_tensors(profile.optimizer_state_tensors);
  message.set_step_s(profile.step_s);
  AppendAll(profile.nodes, message.mutable_nodes());
  return message;
}

absl::StatusOr<Profile> FromProto(const v1::Profile& message) {
  FieldCheck check("Profile");
  check.Text("model_hash", message.model_hash()).Text("device_kind", message.device_kind());
  check.Count("microbatch_size", message.microbatch_size());
  check.Count("optimizer_state_tensors", message.optimizer_state_tensors(), 0, 16);
  check.NotNegative("step_s", message.step_s());
  PD_RETURN_IF_ERROR(check.status());
  Profile profile;
  profile.model_hash = message.model_hash();
  profile.device_kind = message.device_kind();
  profile.microbatch_size = message.microbatch_size();
  profile.optimizer_state_tensors = message.optimizer_state_tensors();
  profile.step_s = message.step_s();
  PD_RETURN_IF_ERROR(ReadAll(message.nodes(), "Profile.nodes", &profile.nodes));
  return profile;
}

v1::DeviceInfo ToProto(const DeviceInfo& device) {
  v1::DeviceInfo message;
  message.set_worker_id(device.worker_id);
  message.set_kind(device.kind);
  message.set_memory_bytes(device.memory_bytes);
  message.set_host_id(device.host_id);
  return message;
}

absl::StatusOr<DeviceInfo> FromProto(const v1::DeviceInfo& message) {
  FieldCheck check("DeviceInfo");
  check.Text("worker_id", message.worker_id(), 256).Text("kind", message.kind());
  check.Count("memory_bytes", message.memory_bytes()).Text("host_id", message.host_id(), 256);
  PD_RETURN_IF_ERROR(check.status());
  return DeviceInfo{message.worker_id(), message.kind(), message.memory_bytes(), message.host_id()};
}

v1::LinkInfo ToProto(const LinkInfo& link) {
  v1::LinkInfo message;
  message.set_from(link.from);
  message.set_to(link.to);
  message.set_bandwidth_bytes_per_s(link.bandwidth_bytes_per_s);
  message.set_latency_s(link.latency_s);
  message.set_transport(link.transport);
  return message;
}

absl::StatusOr<LinkInfo> FromProto(const v1::LinkInfo& message) {
  FieldCheck check("LinkInfo");
  check.Int32("from", message.from()).Int32("to", message.to());
  check.NotNegative("bandwidth_bytes_per_s", message.bandwidth_bytes_per_s());
  check.NotNegative("latency_s", message.latency_s());
  check.Text("transport", message.transport(), 256);
  PD_RETURN_IF_ERROR(check.status());
  return LinkInfo{message.from(), message.to(), message.bandwidth_bytes_per_s(),
                  message.latency_s(), message.transport()};
}

v1::ClusterTopology ToProto(const ClusterTopology& topology) {
  v1::ClusterTopology message;
  AppendAll(topology.devices, message.mutable_devices());
  AppendAll(topology.links, message.mutable_links());
  return message;
}

absl::StatusOr<ClusterTopology> FromProto(const v1::ClusterTopology& message) {
  ClusterTopology topology;
  PD_RETURN_IF_ERROR(
      ReadAll(message.devices(), "ClusterTopology.devices", &topology.devices, 10'000));
  PD_RETURN_IF_ERROR(ReadAll(message.links(), "ClusterTopology.links", &topology.links));
  int64_t last = static_cast<int64_t>(topology.devices.size()) - 1;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    FieldCheck check("ClusterTopology.links", static_cast<int64_t>(i));
    check.Count("from", topology.links[i].from, 0, last);
    check.Count("to", topology.links[i].to, 0, last);
    PD_RETURN_IF_ERROR(check.status());
  }
  return topology;
}

}  // namespace pipedream
