#include "worker/engine/stage_state.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/base/status.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_compiler.h"

namespace pipedream {
namespace {

absl::StatusOr<TrainingGraph> BindTraining(const Model& model, const JobSpec& spec, int64_t batch) {
  BindOptions options{batch, GraphForm::kTraining, spec.train_patterns, spec.freeze_patterns};
  PD_ASSIGN_OR_RETURN(Graph forward, model.Bind(options));
  return MakeTrainingGraph(forward, spec.loss);
}

absl::StatusOr<TrainingGraph> BindEvaluation(const Model& model, const JobSpec& spec,
                                             int64_t batch) {
  BindOptions options{batch, GraphForm::kInference, spec.train_patterns, spec.freeze_patterns};
  PD_ASSIGN_OR_RETURN(Graph forward, model.Bind(options));
  return MakeEvaluationGraph(forward, spec.loss);
}

// The evaluation form has other nodes than the training form; those of one name share a stage, and
// a node without namesake goes where its last input is made.
std::vector<int> EvaluationStages(const TrainingGraph& training, const std::vector<int>& stage_of,
                                  const TrainingGraph& evaluation) {
  std::unordered_map<std::string, int> by_name;
  for (int n = 0; n < training.forward_nodes; ++n)
    by_name.emplace(training.graph.node(NodeId(n)).name, stage_of[n]);
  std::vector<int> out;
  for (int n = 0; n < evaluation.forward_nodes; ++n) {
    const Node& node = evaluation.graph.node(NodeId(n));
    int stage = 0;
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      NodeId producer = evaluation.graph.value(input).producer;
      if (producer != kNoNode) stage = std::max(stage, out[producer.value()]);
    }
    auto it = by_name.find(node.name);
    out.push_back(it == by_name.end() ? stage : it->second);
  }
  return out;
}

class StageBuilder {
 public:
  StageBuilder(const StageInputs& inputs, const KernelBackend& backend, Device* device)
      : in_(inputs), backend_(backend), device_(device), stage_(std::make_unique<StageState>()) {}

  absl::StatusOr<std::unique_ptr<StageState>> Build() {
    stage_->spec = in_.spec;
    stage_->run = in_.run;
    stage_->program = in_.program;
    stage_->train = in_.train;
    stage_->evaluation = in_.evaluation;
    stage_->optimizer = MakeOptimizer(in_.spec.optimizer);
    PD_RETURN_IF_ERROR(Compile());
    PD_RETURN_IF_ERROR(Allocate());
    PD_RETURN_IF_ERROR(LoadInitial());
    return std::move(stage_);
  }

 private:
  absl::Status Compile() {
    const int stages = in_.program.shape.stages();
    const int index = in_.program.stage.value();
    std::vector<int64_t> sizes = MicrobatchSizes(in_.run);
    for (int64_t samples : sizes) {
      PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(*in_.model, in_.spec, samples));
      PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut, CutStages(training, in_.stage_of, stages));
      PD_ASSIGN_OR_RETURN(CompiledStage compiled,
                          CompileStage(training, cut[index], backend_, samples, &stage_->layout));
      Measure(compiled);
      stage_->training.emplace(samples, std::move(compiled));
      if (stage_->global_parameters == 0) ReadWholeModel(training);
      if (in_.run.evaluation_samples == 0) continue;
      PD_ASSIGN_OR_RETURN(TrainingGraph evaluation, BindEvaluation(*in_.model, in_.spec, samples));
      std::vector<int> stage_of = EvaluationStages(training, in_.stage_of, evaluation);
      PD_ASSIGN_OR_RETURN(cut, CutStages(evaluation, stage_of, stages));
      PD_ASSIGN_OR_RETURN(compiled,
                          CompileStage(evaluation, cut[index], backend_, samples, &stage_->layout));
      Measure(compiled);
      stage_->evaluating.emplace(samples, std::move(compiled));
    }
    return absl::OkStatus();
  }

  void Measure(const CompiledStage& compiled) {
    auto grow = [](size_t& size, size_t to) { size = std::max(size, to); };
    grow(stage_->activation_in_bytes, compiled.activation_in_bytes);
    grow(stage_->activation_out_bytes, compiled.activation_out_bytes);
    grow(stage_->gradient_in_bytes, compiled.gradient_in_bytes);
    grow(stage_->gradient_out_bytes, compiled.gradient_out_bytes);
    grow(slot_bytes_, compiled.slot_bytes);
    for (const CompiledProgram* program : {&compiled.forward, &compiled.backward})
      grow(arena_bytes_, program->arena_bytes + AlignUp(program->scratch_bytes));
  }

  // Where this stage's parameters and statistics stand in the whole model.
  void ReadWholeModel(const TrainingGraph& training) {
    stage_->global_parameters = static_cast<int>(training.gradients.size());
    std::unordered_map<std::string, int> index;
    for (size_t i = 0; i < training.gradients.size(); ++i)
      index.emplace(training.graph.value(training.gradients[i].parameter).name, i);
    for (const StoredTensor& parameter : stage_->layout.parameters)
      stage_->global_index.push_back(index.at(parameter.name));
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
    const StageProgram& program = in_.program;
    const int replicas = program.shape.replicas[program.stage.value()];
    const size_t parameter_bytes = s.layout.parameter_bytes;
    std::vector<DeviceBuffer> versions;
    for (int v = 0; v < std::max(program.versions, 1); ++v) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes, "a weight version"));
      versions.push_back(std::move(buffer));
    }
    s.weights = std::make_unique<WeightStore>(std::move(versions));
    const size_t shares = replicas > 1 ? s.layout.state_bytes : 0;
    PD_ASSIGN_OR_RETURN(s.gradients, Allocate(parameter_bytes + shares, "gradients"));
    s.gradient_floats = (parameter_bytes + shares) / sizeof(float);
    if (program.policy == WeightPolicy::kFlush && program.shape.microbatches_per_minibatch > 1) {
      PD_ASSIGN_OR_RETURN(s.microbatch_gradients, Allocate(parameter_bytes, "gradients"));
    }
    for (size_t i = 0; i < s.optimizer->state_tensors().size(); ++i) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(parameter_bytes, "optimizer state"));
      s.optimizer_state.push_back(std::move(buffer));
    }
    PD_ASSIGN_OR_RETURN(s.states, Allocate(s.layout.state_bytes, "running statistics"));
    PD_ASSIGN_OR_RETURN(s.constants, Allocate(s.layout.constant_bytes, "constants"));
    PD_ASSIGN_OR_RETURN(s.arena, Allocate(arena_bytes_, "temporaries"));
    for (int slot = 0; slot < program.slots; ++slot) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(slot_bytes_, "saved activations"));
      s.slots.push_back(std::move(buffer));
      if (shares == 0) continue;
      PD_ASSIGN_OR_RETURN(buffer, Allocate(shares, "running statistics"));
      s.state_shares.push_back(std::move(buffer));
    }
    s.norms.resize(s.global_parameters);
    const StagePeers peers = PeersOf(program);
    s.memory_bytes += static_cast<int64_t>(
        program.channel_slots * (peers.activation_to.size() * s.activation_out_bytes +
                                 peers.activation_from.size() * s.activation_in_bytes +
                                 peers.gradient_to.size() * s.gradient_out_bytes +
                                 peers.gradient_from.size() * s.gradient_in_bytes));
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
      PD_RETURN_IF_ERROR(
          Relayout(plain, tensor.spec, tensor.initial.bytes().data(), base + tensor.offset));
      tensor.initial = Tensor();  // the model may hold gigabytes
    }
    return absl::OkStatus();
  }

  absl::Status Relayout(const TensorSpec& from, const TensorSpec& to, const void* source,
                        void* target) {
    if (SameLayout(from, to)) {
      std::memcpy(target, source, from.bytes);
      return absl::OkStatus();
    }
    PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend_.PrepareReorder(from, to));
    PD_ASSIGN_OR_RETURN(DeviceBuffer scratch,
                        device_->Allocate(reorder.scratch_bytes, "a reorder"));
    const void* inputs[] = {source};
    void* outputs[] = {target};
    return reorder.kernel->Run({inputs, outputs, scratch.data(), nullptr});
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
    if (SameLayout(plain, tensor.spec)) {
      std::memcpy(bytes.data(), base + tensor.offset, plain.bytes);
    } else {
      PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend.PrepareReorder(tensor.spec, plain));
      std::vector<std::byte> scratch(reorder.scratch_bytes + 1);
      const void* inputs[] = {base + tensor.offset};
      void* outputs[] = {bytes.data()};
      PD_RETURN_IF_ERROR(reorder.kernel->Run({inputs, outputs, scratch.data(), nullptr}));
    }
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

absl::StatusOr<std::vector<std::string>> ColumnsOfStage(const Model& model, const JobSpec& spec,
                                                        const std::vector<int>& stage_of,
                                                        int stages, int stage) {
  PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(model, spec, 2));
  PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut, CutStages(training, stage_of, stages));
  std::vector<std::string> out;
  for (ValueId id : cut[stage].inputs) out.push_back(training.graph.value(id).name);
  return out;
}

}  // namespace pipedream
