#include "common/codec/schedule_codec.h"

#include <array>
#include <utility>

#include "common/codec/enum_names.h"
#include "common/codec/field_check.h"
#include "common/codec/lists.h"
#include "common/schedule/instruction.h"

namespace pipedream {
namespace {

constexpr std::array kPolicies = {
    EnumName<WeightPolicy>{WeightPolicy::kFlush, "flush"},
    EnumName<WeightPolicy>{WeightPolicy::kStash, "stash"},
    EnumName<WeightPolicy>{WeightPolicy::kVerticalSync, "vsync"},
    EnumName<WeightPolicy>{WeightPolicy::kDoubleBuffer, "2bw"},
    EnumName<WeightPolicy>{WeightPolicy::kSpeculative, "speculative"},
    EnumName<WeightPolicy>{WeightPolicy::kSingle, "single"},
};
constexpr int kMaxStages = 10'000;

// True if a * b * c is a count; all are counts themselves.
bool ProductFits(int64_t a, int64_t b, int64_t c) {
  __int128 product = static_cast<__int128>(a) * b;
  return product <= kMaxCount && product * c <= kMaxCount;
}

}  // namespace

v1::ScheduleShape ToProto(const ScheduleShape& shape) {
  v1::ScheduleShape message;
  message.mutable_replicas()->Assign(shape.replicas.begin(), shape.replicas.end());
  message.set_minibatches_per_epoch(shape.minibatches_per_epoch);
  message.set_epochs(shape.epochs);
  message.set_microbatches_per_minibatch(shape.microbatches_per_minibatch);
  message.set_evaluation_microbatches(shape.evaluation_microbatches);
  message.mutable_warmup()->Assign(shape.warmup.begin(), shape.warmup.end());
  message.set_global_norm(shape.global_norm);
  message.mutable_device_of()->Assign(shape.device_of.begin(), shape.device_of.end());
  AppendAll(shape.edges, message.mutable_edges());
  message.mutable_tied_stages()->Assign(shape.tied_stages.begin(), shape.tied_stages.end());
  return message;
}

v1::ScheduleEdge ToProto(const ScheduleEdge& edge) {
  v1::ScheduleEdge message;
  message.set_from(edge.from);
  message.set_to(edge.to);
  message.set_gradient(edge.gradient);
  return message;
}

absl::StatusOr<ScheduleEdge> FromProto(const v1::ScheduleEdge& message) {
  return ScheduleEdge{message.from(), message.to(), message.gradient()};
}

absl::StatusOr<ScheduleShape> FromProto(const v1::ScheduleShape& message) {
  FieldCheck check("ScheduleShape");
  check.Listed("replicas", message.replicas_size(), kMaxStages);
  check.Require("replicas", message.replicas_size() > 0, "at least one stage");
  for (int r : message.replicas()) check.Count("replicas", r, 1, 10'000);
  check.Count("minibatches_per_epoch", message.minibatches_per_epoch());
  check.Count("epochs", message.epochs());
  check.Count("microbatches_per_minibatch", message.microbatches_per_minibatch(), 1);
  check.Count("evaluation_microbatches", message.evaluation_microbatches());
  check.Require("warmup",
                message.warmup_size() == 0 || message.warmup_size() == message.replicas_size(),
                "none, or one number per stage");
  for (int w : message.warmup()) check.Count("warmup", w);
  PD_RETURN_IF_ERROR(check.status());
  if (!ProductFits(message.minibatches_per_epoch(), message.epochs(),
                   message.microbatches_per_minibatch()) ||
      !ProductFits(message.evaluation_microbatches(), message.epochs(), 1)) {
    return InvalidArgument("ScheduleShape: more microbatches than can be counted ({} x {} x {})",
                           message.epochs(), message.minibatches_per_epoch(),
                           message.microbatches_per_minibatch());
  }
  ScheduleShape shape;
  shape.replicas.assign(message.replicas().begin(), message.replicas().end());
  shape.minibatches_per_epoch = message.minibatches_per_epoch();
  shape.epochs = message.epochs();
  shape.microbatches_per_minibatch = message.microbatches_per_minibatch();
  shape.evaluation_microbatches = message.evaluation_microbatches();
  shape.warmup.assign(message.warmup().begin(), message.warmup().end());
  shape.global_norm = message.global_norm();
  check.Listed("device_of", message.device_of_size(), kMaxStages);
  check.Listed("edges", message.edges_size(), kMaxStages);
  check.Listed("tied_stages", message.tied_stages_size(), kMaxStages);
  PD_RETURN_IF_ERROR(check.status());
  shape.device_of.assign(message.device_of().begin(), message.device_of().end());
  PD_RETURN_IF_ERROR(ReadAll(message.edges(), "ScheduleShape.edges", &shape.edges));
  shape.tied_stages.assign(message.tied_stages().begin(), message.tied_stages().end());
  if (absl::Status status = Validate(shape); !status.ok()) return Annotate(status, "ScheduleShape");
  return shape;
}

v1::ProgramBlock ToProto(const ProgramBlock& block) {
  v1::ProgramBlock message;
  message.set_repeat(block.repeat);
  message.set_microbatch_stride(block.microbatch_stride);
  message.set_evaluation_stride(block.evaluation_stride);
  message.set_update_stride(block.update_stride);
  message.set_version_stride(block.version_stride);
  for (const Instruction& instruction : block.body) message.add_body(Format(instruction));
  return message;
}

absl::StatusOr<ProgramBlock> FromProto(const v1::ProgramBlock& message) {
  FieldCheck check("ProgramBlock");
  check.Count("repeat", message.repeat());
  check.Listed("body", message.body_size());
  for (auto [name, stride] : {std::pair("microbatch_stride", message.microbatch_stride()),
                              std::pair("evaluation_stride", message.evaluation_stride()),
                              std::pair("update_stride", message.update_stride()),
                              std::pair("version_stride", message.version_stride())}) {
    check.Count(name, stride);
    if (check.status().ok()) {
      check.Require(name, ProductFits(stride, message.repeat(), 1), "a last number below 2^53");
    }
  }
  PD_RETURN_IF_ERROR(check.status());
  ProgramBlock block;
  block.repeat = message.repeat();
  block.microbatch_stride = message.microbatch_stride();
  block.evaluation_stride = message.evaluation_stride();
  block.update_stride = message.update_stride();
  block.version_stride = message.version_stride();
  block.body.reserve(message.body_size());
  for (int i = 0; i < message.body_size(); ++i) {
    FieldCheck item("ProgramBlock.body", i);
    item.Text("text", message.body(i), 128);
    PD_RETURN_IF_ERROR(item.status());
    auto instruction = ParseInstruction(message.body(i));
    if (!instruction.ok()) {
      return Annotate(instruction.status(), fmt::format("ProgramBlock.body[{}]", i));
    }
    item.Count("microbatch", instruction->microbatch.value());
    item.Count("version", instruction->version.value(), kNoVersion.value());
    item.Count("slot", instruction->slot, kNoSlot, 1'000'000);
    item.Count("chunk", instruction->chunk, 0, kMaxStages);
    item.Int32("peer.stage", instruction->peer.stage.value());
    item.Int32("peer.replica", instruction->peer.replica.value());
    PD_RETURN_IF_ERROR(item.status());
    block.body.push_back(*instruction);
  }
  return block;
}

v1::StageProgram ToProto(const StageProgram& program) {
  v1::StageProgram message;
  message.set_stage(program.stage.value());
  message.set_replica(program.replica.value());
  *message.mutable_shape() = ToProto(program.shape);
  message.set_policy(std::string(NameOf(kPolicies, program.policy)));
  AppendAll(program.blocks, message.mutable_blocks());
  AppendAll(program.needs, message.mutable_needs());
  message.set_channel_slots(program.channel_slots);
  return message;
}

v1::StageNeeds ToProto(const StageNeeds& needs) {
  v1::StageNeeds message;
  message.set_slots(needs.slots);
  message.set_versions(needs.versions);
  message.set_gradients(needs.gradients);
  message.set_undo(needs.undo);
  return message;
}

absl::StatusOr<StageNeeds> FromProto(const v1::StageNeeds& message) {
  FieldCheck check("StageNeeds");
  check.Count("slots", message.slots(), 0, 1'000'000);
  check.Count("versions", message.versions(), 1, 1'000'000);
  check.Count("gradients", message.gradients(), 1, 2);
  PD_RETURN_IF_ERROR(check.status());
  return StageNeeds{message.slots(), message.versions(), message.gradients(), message.undo()};
}

absl::StatusOr<StageProgram> FromProto(const v1::StageProgram& message) {
  StageProgram program;
  PD_ASSIGN_OR_RETURN(program.shape, FromProto(message.shape()));
  PD_ASSIGN_OR_RETURN(program.policy, ValueOf(kPolicies, "StageProgram.policy", message.policy()));
  FieldCheck check("StageProgram");
  check.Count("stage", message.stage(), 0, program.shape.stages() - 1);
  check.Count("channel_slots", message.channel_slots(), 1, 1'000'000);
  PD_RETURN_IF_ERROR(check.status());
  check.Count("replica", message.replica(), 0, program.shape.replicas[message.stage()] - 1);
  PD_RETURN_IF_ERROR(check.status());
  program.stage = StageId(message.stage());
  program.replica = ReplicaId(message.replica());
  program.channel_slots = message.channel_slots();
  PD_RETURN_IF_ERROR(ReadAll(message.needs(), "StageProgram.needs", &program.needs));
  PD_RETURN_IF_ERROR(ReadAll(message.blocks(), "StageProgram.blocks", &program.blocks));
  return program;
}

}  // namespace pipedream
