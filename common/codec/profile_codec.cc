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
  message.set_constant_bytes(node.constant_bytes);
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
  check.Count("constant_bytes", message.constant_bytes());
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
  node.constant_bytes = message.constant_bytes();
  return node;
}

v1::ProfileTensor ToProto(const ProfileTensor& tensor) {
  v1::ProfileTensor message;
  message.mutable_early()->Assign(tensor.early.begin(), tensor.early.end());
  message.mutable_late()->Assign(tensor.late.begin(), tensor.late.end());
  message.set_bytes(tensor.bytes);
  message.set_gradient(tensor.gradient);
  message.mutable_kept_by()->Assign(tensor.kept_by.begin(), tensor.kept_by.end());
  message.set_kept_bytes(tensor.kept_bytes);
  return message;
}

absl::StatusOr<ProfileTensor> FromProto(const v1::ProfileTensor& message) {
  FieldCheck check("ProfileTensor");
  check.Require("late", message.late_size() > 0, "at least one node");
  check.Count("bytes", message.bytes());
  check.Count("kept_bytes", message.kept_bytes());
  PD_RETURN_IF_ERROR(check.status());
  return ProfileTensor{{message.early().begin(), message.early().end()},
                       {message.late().begin(), message.late().end()},
                       message.bytes(),
                       message.gradient(),
                       {message.kept_by().begin(), message.kept_by().end()},
                       message.kept_bytes()};
}

namespace {

absl::Status CheckNodes(const Profile& profile) {
  const int count = static_cast<int>(profile.nodes.size());
  const auto ascending = [&](FieldCheck* check, std::string_view field,
                             const std::vector<int>& nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      check->Require(field, nodes[i] >= 0 && nodes[i] < count, "nodes of the profile");
      check->Require(field, i == 0 || nodes[i] > nodes[i - 1], "ascending nodes");
    }
  };
  for (size_t t = 0; t < profile.tensors.size(); ++t) {
    const ProfileTensor& tensor = profile.tensors[t];
    FieldCheck check("Profile.tensors", static_cast<int64_t>(t));
    ascending(&check, "early", tensor.early);
    ascending(&check, "late", tensor.late);
    ascending(&check, "kept_by", tensor.kept_by);
    check.Require("late", tensor.early.empty() || tensor.early.front() < tensor.late.back(),
                  "a node behind the early ones");
    PD_RETURN_IF_ERROR(check.status());
  }
  for (size_t t = 0; t < profile.ties.size(); ++t) {
    FieldCheck check("Profile.ties", static_cast<int64_t>(t));
    ascending(&check, "nodes", profile.ties[t]);
    PD_RETURN_IF_ERROR(check.status());
  }
  return absl::OkStatus();
}

}  // namespace

v1::Profile ToProto(const Profile& profile) {
  v1::Profile message;
  message.set_model_hash(profile.model_hash);
  message.set_device_kind(profile.device_kind);
  message.set_microbatch_size(profile.microbatch_size);
  message.set_optimizer_state_tensors(profile.optimizer_state_tensors);
  message.set_step_s(profile.step_s);
  message.set_device_speed(profile.device_speed);
  AppendAll(profile.nodes, message.mutable_nodes());
  AppendAll(profile.tensors, message.mutable_tensors());
  for (const std::vector<int>& tie : profile.ties)
    message.add_ties()->mutable_nodes()->Assign(tie.begin(), tie.end());
  return message;
}

absl::StatusOr<Profile> FromProto(const v1::Profile& message) {
  FieldCheck check("Profile");
  check.Text("model_hash", message.model_hash()).Text("device_kind", message.device_kind());
  check.Count("microbatch_size", message.microbatch_size());
  check.Count("optimizer_state_tensors", message.optimizer_state_tensors(), 0, 16);
  check.NotNegative("step_s", message.step_s());
  check.NotNegative("device_speed", message.device_speed());
  PD_RETURN_IF_ERROR(check.status());
  Profile profile;
  profile.model_hash = message.model_hash();
  profile.device_kind = message.device_kind();
  profile.microbatch_size = message.microbatch_size();
  profile.optimizer_state_tensors = message.optimizer_state_tensors();
  profile.step_s = message.step_s();
  profile.device_speed = message.device_speed();
  PD_RETURN_IF_ERROR(ReadAll(message.nodes(), "Profile.nodes", &profile.nodes));
  PD_RETURN_IF_ERROR(ReadAll(message.tensors(), "Profile.tensors", &profile.tensors));
  for (const v1::NodeGroup& tie : message.ties())
    profile.ties.emplace_back(tie.nodes().begin(), tie.nodes().end());
  PD_RETURN_IF_ERROR(CheckNodes(profile));
  return profile;
}

v1::DeviceInfo ToProto(const DeviceInfo& device) {
  v1::DeviceInfo message;
  message.set_worker_id(device.worker_id);
  message.set_kind(device.kind);
  message.set_memory_bytes(device.memory_bytes);
  message.set_host_id(device.host_id);
  message.set_speed(device.speed);
  return message;
}

absl::StatusOr<DeviceInfo> FromProto(const v1::DeviceInfo& message) {
  FieldCheck check("DeviceInfo");
  check.Text("worker_id", message.worker_id(), 256).Text("kind", message.kind());
  check.Count("memory_bytes", message.memory_bytes()).Text("host_id", message.host_id(), 256);
  check.NotNegative("speed", message.speed());
  PD_RETURN_IF_ERROR(check.status());
  return DeviceInfo{message.worker_id(), message.kind(), message.memory_bytes(), message.host_id(),
                    message.speed() > 0 ? message.speed() : 1};
}

v1::PortInfo ToProto(const PortInfo& port) {
  v1::PortInfo message;
  message.set_name(port.name);
  message.set_bandwidth_bytes_per_s(port.bandwidth_bytes_per_s);
  return message;
}

absl::StatusOr<PortInfo> FromProto(const v1::PortInfo& message) {
  FieldCheck check("PortInfo");
  check.Text("name", message.name(), 256);
  check.NotNegative("bandwidth_bytes_per_s", message.bandwidth_bytes_per_s());
  PD_RETURN_IF_ERROR(check.status());
  return PortInfo{message.name(), message.bandwidth_bytes_per_s()};
}

v1::LinkInfo ToProto(const LinkInfo& link) {
  v1::LinkInfo message;
  message.set_from(link.from);
  message.set_to(link.to);
  message.set_bandwidth_bytes_per_s(link.bandwidth_bytes_per_s);
  message.set_latency_s(link.latency_s);
  message.set_transport(link.transport);
  if (link.out_port >= 0) message.set_out_port(link.out_port);
  if (link.in_port >= 0) message.set_in_port(link.in_port);
  return message;
}

absl::StatusOr<LinkInfo> FromProto(const v1::LinkInfo& message) {
  FieldCheck check("LinkInfo");
  check.Int32("from", message.from()).Int32("to", message.to());
  check.NotNegative("bandwidth_bytes_per_s", message.bandwidth_bytes_per_s());
  check.NotNegative("latency_s", message.latency_s());
  check.Text("transport", message.transport(), 256);
  PD_RETURN_IF_ERROR(check.status());
  return LinkInfo{message.from(),
                  message.to(),
                  message.bandwidth_bytes_per_s(),
                  message.latency_s(),
                  message.transport(),
                  message.has_out_port() ? message.out_port() : -1,
                  message.has_in_port() ? message.in_port() : -1};
}

v1::ClusterTopology ToProto(const ClusterTopology& topology) {
  v1::ClusterTopology message;
  AppendAll(topology.devices, message.mutable_devices());
  AppendAll(topology.links, message.mutable_links());
  AppendAll(topology.ports, message.mutable_ports());
  return message;
}

absl::StatusOr<ClusterTopology> FromProto(const v1::ClusterTopology& message) {
  ClusterTopology topology;
  PD_RETURN_IF_ERROR(
      ReadAll(message.devices(), "ClusterTopology.devices", &topology.devices, 10'000));
  PD_RETURN_IF_ERROR(ReadAll(message.links(), "ClusterTopology.links", &topology.links));
  PD_RETURN_IF_ERROR(ReadAll(message.ports(), "ClusterTopology.ports", &topology.ports));
  const int64_t last_port = static_cast<int64_t>(topology.ports.size()) - 1;
  int64_t last = static_cast<int64_t>(topology.devices.size()) - 1;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    FieldCheck check("ClusterTopology.links", static_cast<int64_t>(i));
    check.Count("from", topology.links[i].from, 0, last);
    check.Count("to", topology.links[i].to, 0, last);
    check.Count("out_port", topology.links[i].out_port, -1, last_port);
    check.Count("in_port", topology.links[i].in_port, -1, last_port);
    PD_RETURN_IF_ERROR(check.status());
  }
  return topology;
}

}  // namespace pipedream
