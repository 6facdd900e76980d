#include "common/codec/plan_codec.h"

#include "common/codec/field_check.h"
#include "common/codec/lists.h"

namespace pipedream {

v1::MemoryPrediction ToProto(const MemoryPrediction& memory) {
  v1::MemoryPrediction message;
  message.set_weights(memory.weights);
  message.set_gradients(memory.gradients);
  message.set_optimizer(memory.optimizer);
  message.set_activations(memory.activations);
  message.set_buffers(memory.buffers);
  message.set_workspace(memory.workspace);
  return message;
}

absl::StatusOr<MemoryPrediction> FromProto(const v1::MemoryPrediction& message) {
  FieldCheck check("MemoryPrediction");
  check.Count("weights", message.weights()).Count("gradients", message.gradients());
  check.Count("optimizer", message.optimizer()).Count("activations", message.activations());
  check.Count("buffers", message.buffers()).Count("workspace", message.workspace());
  PD_RETURN_IF_ERROR(check.status());
  MemoryPrediction memory;
  memory.weights = message.weights();
  memory.gradients = message.gradients();
  memory.optimizer = message.optimizer();
  memory.activations = message.activations();
  memory.buffers = message.buffers();
  memory.workspace = message.workspace();
  return memory;
}

v1::PlanStage ToProto(const PlanStage& stage) {
  v1::PlanStage message;
  message.mutable_nodes()->Assign(stage.nodes.begin(), stage.nodes.end());
  message.set_recompute(stage.recompute);
  message.set_first_node_name(stage.first_node_name);
  message.set_last_node_name(stage.last_node_name);
  message.mutable_workers()->Assign(stage.workers.begin(), stage.workers.end());
  message.set_warmup(stage.warmup);
  message.set_versions(stage.versions);
  message.set_compute_s(stage.compute_s);
  message.set_sync_s(stage.sync_s);
  message.set_send_s(stage.send_s);
  message.set_parameter_bytes(stage.parameter_bytes);
  message.set_sent_bytes(stage.sent_bytes);
  *message.mutable_memory() = ToProto(stage.memory);
  return message;
}

absl::StatusOr<PlanStage> FromProto(const v1::PlanStage& message) {
  FieldCheck check("PlanStage");
  check.Require("nodes", message.nodes_size() > 0, "at least one node");
  for (int i = 1; i < message.nodes_size(); ++i)
    check.Require("nodes", message.nodes(i) > message.nodes(i - 1), "nodes, ascending");
  check.Text("first_node_name", message.first_node_name());
  check.Text("last_node_name", message.last_node_name());
  check.Listed("workers", message.workers_size(), 10'000);
  check.Require("workers", message.workers_size() > 0, "at least one worker");
  for (const std::string& worker : message.workers()) check.Text("workers", worker, 256);
  check.Int32("warmup", message.warmup()).Int32("versions", message.versions());
  check.NotNegative("compute_s", message.compute_s()).NotNegative("sync_s", message.sync_s());
  check.NotNegative("send_s", message.send_s());
  check.Count("parameter_bytes", message.parameter_bytes());
  check.Count("sent_bytes", message.sent_bytes());
  PD_RETURN_IF_ERROR(check.status());
  PlanStage stage;
  stage.nodes.assign(message.nodes().begin(), message.nodes().end());
  stage.recompute = message.recompute();
  stage.first_node_name = message.first_node_name();
  stage.last_node_name = message.last_node_name();
  stage.workers.assign(message.workers().begin(), message.workers().end());
  stage.warmup = message.warmup();
  stage.versions = message.versions();
  stage.compute_s = message.compute_s();
  stage.sync_s = message.sync_s();
  stage.send_s = message.send_s();
  stage.parameter_bytes = message.parameter_bytes();
  stage.sent_bytes = message.sent_bytes();
  PD_ASSIGN_OR_RETURN(stage.memory, FromProto(message.memory()));
  return stage;
}

v1::PlanAlternative ToProto(const PlanAlternative& alternative) {
  v1::PlanAlternative message;
  message.set_name(alternative.name);
  message.set_config(alternative.config);
  message.set_step_s(alternative.step_s);
  message.set_reason(alternative.reason);
  message.set_bottleneck_s(alternative.bottleneck_s);
  return message;
}

absl::StatusOr<PlanAlternative> FromProto(const v1::PlanAlternative& message) {
  FieldCheck check("PlanAlternative");
  check.Text("name", message.name()).Text("config", message.config());
  check.Text("reason", message.reason(), 65536).NotNegative("step_s", message.step_s());
  check.NotNegative("bottleneck_s", message.bottleneck_s());
  PD_RETURN_IF_ERROR(check.status());
  return PlanAlternative{message.name(), message.config(), message.step_s(),
                         message.bottleneck_s(), message.reason()};
}

namespace {

// Every node is in one stage.
absl::Status CheckNodes(const std::vector<PlanStage>& stages) {
  size_t count = 0;
  for (const PlanStage& stage : stages) count += stage.nodes.size();
  std::vector<bool> placed(count);
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const int node : stages[s].nodes) {
      if (node < 0 || static_cast<size_t>(node) >= count || placed[node]) {
        return InvalidArgument(
            "Plan.stages[{}].nodes: found {}, expected each of the nodes 0 to {} in one stage", s,
            node, count - 1);
      }
      placed[node] = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace

v1::Plan ToProto(const Plan& plan) {
  v1::Plan message;
  message.set_schedule(plan.schedule);
  message.set_rule(plan.rule);
  AppendAll(plan.stages, message.mutable_stages());
  message.set_step_s(plan.step_s);
  message.set_bubble(plan.bubble);
  message.set_bottleneck_s(plan.bottleneck_s);
  message.set_optimality_gap(plan.optimality_gap);
  message.set_moved_bytes(plan.moved_bytes);
  message.set_data_parallel_bytes(plan.data_parallel_bytes);
  AppendAll(plan.alternatives, message.mutable_alternatives());
  message.mutable_warnings()->Assign(plan.warnings.begin(), plan.warnings.end());
  message.set_planning_s(plan.planning_s);
  message.set_own_warmup(plan.own_warmup);
  message.mutable_device_of()->Assign(plan.device_of.begin(), plan.device_of.end());
  return message;
}

absl::StatusOr<Plan> FromProto(const v1::Plan& message) {
  FieldCheck check("Plan");
  check.Text("schedule", message.schedule()).Text("rule", message.rule());
  check.NotNegative("step_s", message.step_s()).Finite("bubble", message.bubble());
  check.NotNegative("planning_s", message.planning_s());
  check.NotNegative("bottleneck_s", message.bottleneck_s());
  check.NotNegative("optimality_gap", message.optimality_gap());
  check.Count("moved_bytes", message.moved_bytes());
  check.Count("data_parallel_bytes", message.data_parallel_bytes());
  check.Listed("warnings", message.warnings_size(), 10'000);
  for (const std::string& warning : message.warnings()) check.Text("warnings", warning, 65536);
  PD_RETURN_IF_ERROR(check.status());
  Plan plan;
  plan.schedule = message.schedule();
  plan.rule = message.rule();
  PD_RETURN_IF_ERROR(ReadAll(message.stages(), "Plan.stages", &plan.stages, 10'000));
  check.Require("device_of",
                message.device_of_size() == 0 || message.device_of_size() == message.stages_size(),
                "none, or one per stage");
  for (int device : message.device_of()) check.Count("device_of", device, 0, 10'000);
  PD_RETURN_IF_ERROR(check.status());
  plan.own_warmup = message.own_warmup();
  plan.device_of.assign(message.device_of().begin(), message.device_of().end());
  PD_RETURN_IF_ERROR(
      ReadAll(message.alternatives(), "Plan.alternatives", &plan.alternatives, 10'000));
  PD_RETURN_IF_ERROR(CheckNodes(plan.stages));
  plan.step_s = message.step_s();
  plan.bubble = message.bubble();
  plan.bottleneck_s = message.bottleneck_s();
  plan.optimality_gap = message.optimality_gap();
  plan.moved_bytes = message.moved_bytes();
  plan.data_parallel_bytes = message.data_parallel_bytes();
  plan.warnings.assign(message.warnings().begin(), message.warnings().end());
  plan.planning_s = message.planning_s();
  return plan;
}

}  // namespace pipedream
