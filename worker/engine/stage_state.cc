#include "worker/engine/stage_state.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/base/status.h"
#include "common/job/stage_flow.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/relayout.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_compiler.h"

namespace pipedream {
namespace {

class StageBuilder {
 public:
  StageBuilder(const StageInputs& inputs, const KernelBackend& backend, Device* device)
      : in_(inputs), backend_(backend), device_(device), stage_(std::make_unique<StageState>()) {}

  absl::StatusOr<std::unique_ptr<StageState>> Build() {
    stage_->spec = in_.spec;
    stage_->run = in_.run;
    stage_->stage = in_.program.stages()[in_.chunk];
    stage_->replica = in_.program.replica;
    stage_->shape = in_.program.shape;
    stage_->policy = in_.program.policy;
    stage_->train = in_.train;
    stage_->evaluation = in_.evaluation;
    stage_->optimizer = MakeOptimizer(in_.spec.optimizer);
    PD_RETURN_IF_ERROR(Compile());
    PD_RETURN_IF_ERROR(Allocate());
    PD_RETURN_IF_ERROR(LoadInitial());
    return std::move(stage_);
  }

 private:
  bool share() const { return !in_.program.shape.tied_stages.empty(); }

  absl::Status Compile() {
    const int stages = in_.program.shape.stages();
    const int index = stage_->stage.value();
    const CompileOptions options = Options();
    std::vector<int64_t> sizes = MicrobatchSizes(in_.run);
    for (int64_t samples : sizes) {
      PD_ASSIGN_OR_RETURN(
          TrainingGraph training,
          BindTraining(*in_.model, in_.spec, samples, share() ? in_.stage_of : std::vector<int>()));
      PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut,
                          CutStages(training, in_.stage_of, stages, share()));
      PD_ASSIGN_OR_RETURN(CompiledStage compiled, CompileStage(training, cut[index], backend_,
                                                               samples, options, &stage_->layout));
      Measure(compiled);
      stage_->training.emplace(samples, std::move(compiled));
      if (stage_->global_parameters == 0) ReadWholeModel(training, cut);
      if (in_.run.evaluation_samples == 0) continue;
      PD_ASSIGN_OR_RETURN(TrainingGraph evaluation, BindEvaluation(*in_.model, in_.spec, samples));
      std::vector<int> stage_of = EvaluationStages(training, in_.stage_of, evaluation);
      PD_ASSIGN_OR_RETURN(cut, CutStages(evaluation, stage_of, stages, share()));
      PD_RETURN_IF_ERROR(CheckEvaluation(training, evaluation, cut[index]));
      PD_ASSIGN_OR_RETURN(compiled, CompileStage(evaluation, cut[index], backend_, samples, options,
                                                 &stage_->layout));
      Measure(compiled);
      stage_->evaluating.emplace(samples, std::move(compiled));
    }
    return absl::OkStatus();
  }

  // Only the backward programs that the schedule runs.
  CompileOptions Options() const {
    CompileOptions options{false, false, in_.recompute};
    for (const ProgramBlock& block : in_.program.blocks) {
      for (const Instruction& instruction : block.body) {
        if (instruction.chunk != in_.chunk) continue;
        options.fused_backward |= instruction.op == Op::kBackward;
        options.split_backward |= instruction.op == Op::kBackwardInput;
      }
    }
    return options;
  }

  // A trained parameter is updated only where training reads it.
  absl::Status CheckEvaluation(const TrainingGraph& training, const TrainingGraph& evaluation,
                               const StageGraph& stage) const {
    for (ValueId id : stage.parameters) {
      const std::string& name = evaluation.graph.value(id).name;
      const ValueId trained = training.graph.FindValue(name);
      const bool trains =
          std::ranges::find(training.gradients, trained, &ParameterGradient::parameter) !=
          training.gradients.end();
      const bool here = std::ranges::find(stage_->layout.parameters, name, &StoredTensor::name) !=
                        stage_->layout.parameters.end();
      if (trains && !here)
        return InvalidArgument("evaluation reads parameter '{}' on stage {}, training does not",
                               name, stage_->stage);
    }
    return absl::OkStatus();
  }

  void Measure(const CompiledStage& compiled) {
    StageState& s = *stage_;
    s.activation_in_bytes.Grow(compiled.forward.received);
    s.activation_out_bytes.Grow(compiled.forward.sent);
    for (const CompiledProgram* program : compiled.programs()) {
      arena_bytes_ = std::max(arena_bytes_, program->arena_bytes + AlignUp(program->scratch_bytes));
      if (program == &compiled.forward) continue;
      s.gradient_in_bytes.Grow(program->received);
      s.gradient_out_bytes.Grow(program->sent);
    }
    slot_bytes_ = std::max(slot_bytes_, compiled.slot_bytes);
  }

  // Where this stage's parameters and statistics stand in the whole model.
  void ReadWholeModel(const TrainingGraph& training, const std::vector<StageGraph>& cut) {
    std::unordered_map<std::string, int> index;
    for (const ParameterGradient& g : training.gradients)
      index.try_emplace(training.graph.value(g.parameter).name, static_cast<int>(index.size()));
    stage_->global_parameters = static_cast<int>(index.size());
    for (const StoredTensor& parameter : stage_->layout.parameters)
      stage_->global_index.push_back(index.at(parameter.name));
    for (const StageGraph& stage : cut) {
      for (const SharedParameter& shared : stage.shared) {
        const Value& value = training.graph.value(shared.parameter);
        stage_->shared_parameters[value.name] = {static_cast<size_t>(value.shape.elements()),
                                                 index.at(value.name)};
      }
    }
    std::unordered_map<std::string, double> momentum;
    for (NodeId id : training.state_updates) {
      const Node& node = training.graph.node(id);
      for (int input : {2, 3})
        momentum[training.graph.value(node.inputs[input]).name] = node.attributes.Float("momentum");
    }
    for (const StoredTensor& state : stage_->layout.states)
      stage_->state_momentum.push_back(momentum[state.name]);
  }

  absl::Status Allocate() {
    StageState& s = *stage_;
    const StageNeeds& needs = in_.program.needs[in_.chunk];
    const size_t parameter_bytes = s.layout.parameter_bytes;
    std::vector<DeviceBuffer> versions;
    for (int v = 0; v < needs.versions; ++v) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes, "a weight version"));
      versions.push_back(std::move(buffer));
    }
    s.weights = std::make_unique<WeightStore>(std::move(versions));
    const size_t shares = s.replicas() > 1 ? s.layout.state_bytes : 0;
    for (int k = 0; k < needs.gradients; ++k) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes + shares, "gradients"));
      s.gradient_sums.push_back(std::move(buffer));
    }
    s.gradient_floats = (parameter_bytes + shares) / sizeof(float);
    if (UpdateSpan(s.shape, s.policy, s.stage) > s.replicas()) {
      PD_ASSIGN_OR_RETURN(s.microbatch_gradients, Allocate(parameter_bytes, "gradients"));
    }
    for (size_t i = 0; i < s.optimizer->state_tensors().size(); ++i) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes, "optimizer state"));
      s.optimizer_state.push_back(std::move(buffer));
    }
    PD_ASSIGN_OR_RETURN(s.states, Allocate(s.layout.state_bytes, "running statistics"));
    if (needs.undo) {
      for (size_t i = 0; i < s.optimizer_state.size(); ++i) {
        PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes, "undoing updates"));
        s.undo_optimizer_state.push_back(std::move(buffer));
      }
      PD_ASSIGN_OR_RETURN(s.undo_states, Allocate(s.layout.state_bytes, "undoing updates"));
    }
    PD_ASSIGN_OR_RETURN(s.constants, Allocate(s.layout.constant_bytes, "constants"));
    PD_ASSIGN_OR_RETURN(s.arena, Allocate(arena_bytes_, "temporaries"));
    for (int slot = 0; slot < needs.slots; ++slot) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(slot_bytes_, "saved activations"));
      s.slots.push_back(std::move(buffer));
      if (shares == 0) continue;
      PD_ASSIGN_OR_RETURN(buffer, Allocate(shares, "running statistics"));
      s.state_shares.push_back(std::move(buffer));
    }
    const StagePeers peers = PeersOf(in_.program, in_.chunk);
    auto count = [&](const std::set<Peer>& of, const MessageSizes& sizes) {
      for (Peer peer : of)
        s.memory_bytes += static_cast<int64_t>(
            ChannelSlots(in_.program.channel_slots, s.stage, peer.stage) * sizes.of(peer.stage));
    };
    count(peers.activation_to, s.activation_out_bytes);
    count(peers.activation_from, s.activation_in_bytes);
    count(peers.gradient_to, s.gradient_out_bytes);
    count(peers.gradient_from, s.gradient_in_bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, std::string_view purpose) {
    PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_->Allocate(bytes, purpose));
    stage_->memory_bytes += static_cast<int64_t>(buffer.size());
    return buffer;
  }

  absl::Status LoadInitial() {
    PD_RETURN_IF_ERROR(Load(stage_->layout.parameters, stage_->weights->latest_data()));
    PD_RETURN_IF_ERROR(Load(stage_->layout.states, stage_->states.data()));
    return Load(stage_->layout.constants, stage_->constants.data());
  }

  absl::Status Load(std::vector<StoredTensor>& tensors, std::byte* base) {
    for (StoredTensor& tensor : tensors) {
      const TensorSpec plain = TensorSpec::Plain(tensor.spec.dtype, tensor.spec.shape);
      if (tensor.initial.bytes().size() != plain.bytes)
        return Internal("initial value of '{}' has {} bytes, not {}", tensor.name,
                        tensor.initial.bytes().size(), plain.bytes);
      PD_RETURN_IF_ERROR(Relayout(backend_, plain, tensor.spec, tensor.initial.bytes().data(),
                                  base + tensor.offset));
      tensor.initial = Tensor();  // the model may hold gigabytes
    }
    return absl::OkStatus();
  }

  const StageInputs& in_;
  const KernelBackend& backend_;
  Device* device_;
  std::unique_ptr<StageState> stage_;
  size_t slot_bytes_ = 0;
  size_t arena_bytes_ = 0;
};

absl::Status AppendRowMajor(const KernelBackend& backend, const std::vector<StoredTensor>& tensors,
                            const std::byte* base, std::map<std::string, Tensor>* out) {
  for (const StoredTensor& tensor : tensors) {
    const TensorSpec plain = TensorSpec::Plain(tensor.spec.dtype, tensor.spec.shape);
    std::vector<std::byte> bytes(plain.bytes);
    PD_RETURN_IF_ERROR(Relayout(backend, tensor.spec, plain, base + tensor.offset, bytes.data()));
    out->emplace(tensor.name, Tensor::Copy(tensor.spec.dtype, tensor.spec.shape, bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, Tensor>> StageState::Export(
    const KernelBackend& backend) const {
  std::map<std::string, Tensor> out;
  PD_RETURN_IF_ERROR(AppendRowMajor(backend, layout.parameters, weights->latest_data(), &out));
  PD_RETURN_IF_ERROR(AppendRowMajor(backend, layout.states, states.data(), &out));
  return out;
}

absl::StatusOr<std::unique_ptr<StageState>> BuildStage(const StageInputs& inputs,
                                                       const KernelBackend& backend,
                                                       Device* device) {
  return StageBuilder(inputs, backend, device).Build();
}

}  // namespace pipedream
