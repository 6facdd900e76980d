#include "worker/engine/stage_compiler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "worker/engine/program_compiler.h"
#include "worker/engine/stage_buffers.h"

namespace pipedream {
namespace {

std::vector<ValueId> ValuesOf(const std::vector<StageMessage>& messages) {
  std::vector<ValueId> values;
  for (const StageMessage& message : messages)
    values.insert(values.end(), message.values.begin(), message.values.end());
  return values;
}

class StageCompiler {
 public:
  StageCompiler(const TrainingGraph& training, const StageGraph& stage,
                const KernelBackend& backend, const CompileOptions& options, StageLayout* layout)
      : training_(training),
        graph_(training.graph),
        stage_(stage),
        options_(options),
        plan_(training, stage, options.recompute),
        buffers_(training, stage, layout),
        forward_(graph_, backend, &buffers_),
        backward_(graph_, backend, &buffers_),
        input_(graph_, backend, &buffers_),
        weight_(graph_, backend, &buffers_) {}

  absl::StatusOr<CompiledStage> Compile(int64_t samples) {
    buffers_.PlaceStored();
    PD_RETURN_IF_ERROR(CompileForward());
    if (options_.fused_backward) PD_RETURN_IF_ERROR(CompileFused());
    if (options_.split_backward) PD_RETURN_IF_ERROR(CompileSplit());

    CompiledStage out;
    out.samples = samples;
    out.saved = buffers_.Finish(&out.slot_bytes);
    out.forward = forward_.Finish();
    out.backward = backward_.Finish();
    out.backward_input = input_.Finish();
    out.backward_weight = weight_.Finish();
    for (size_t i = 0; i < stage_.inputs.size(); ++i) {
      const Value& value = graph_.value(stage_.inputs[i]);
      out.loads.push_back({value.name, value.dtype, buffers_.PlaceOf(load_buffers_[i])});
    }
    out.loss = buffers_.PlaceOf(loss_);
    if (correct_ >= 0) {
      out.correct = buffers_.PlaceOf(correct_);
      const Node& loss = graph_.node(graph_.value(training_.correct).producer);
      out.loss_positions = graph_.value(loss.inputs[1]).shape.elements();
    }
    return out;
  }

 private:
  // Forward values that the wanted backward programs find in the slot.
  std::set<ValueId> Kept() const {
    std::set<ValueId> kept;
    if (options_.fused_backward) kept = plan_.Kept(AllGradients());
    if (options_.split_backward) {
      kept.merge(plan_.Kept(stage_.input_gradient));
      kept.merge(plan_.Kept(stage_.weight_gradient));
    }
    return kept;
  }

  std::vector<NodeId> AllGradients() const {
    std::vector<NodeId> nodes = stage_.input_gradient;
    nodes.insert(nodes.end(), stage_.weight_gradient.begin(), stage_.weight_gradient.end());
    return nodes;
  }

  absl::Status CompileForward() {
    buffers_.KeepInSlot(Kept());
    for (ValueId id : stage_.inputs) load_buffers_.push_back(forward_.BindPlain(id));
    forward_.Receive(stage_.received);
    std::vector<ValueId> needed = ValuesOf(stage_.sent);
    auto is_here = [&](ValueId id) {
      return id != kNoValue && std::ranges::count(stage_.forward, graph_.value(id).producer) > 0;
    };
    for (ValueId id : {training_.loss, training_.correct})
      if (is_here(id)) needed.push_back(id);
    PD_RETURN_IF_ERROR(forward_.Compile(stage_.forward, needed, false));
    PD_RETURN_IF_ERROR(forward_.Send(stage_.sent));
    if (training_.loss != kNoValue) loss_ = buffers_.home(training_.loss).buffer;
    if (training_.correct != kNoValue) correct_ = buffers_.home(training_.correct).buffer;
    buffers_.ForgetTemporaries();
    return absl::OkStatus();
  }

  absl::Status CompileFused() {
    buffers_.KeepInSlot({});
    backward_.Receive(stage_.gradients_received);
    PD_RETURN_IF_ERROR(
        backward_.Compile(plan_.Order(AllGradients()), ValuesOf(stage_.gradients_sent), true));
    PD_RETURN_IF_ERROR(backward_.Send(stage_.gradients_sent));
    buffers_.ForgetTemporaries();
    buffers_.ForgetGradients();
    return absl::OkStatus();
  }

  // Parameter gradients that the input part makes on its way wait in the slot, too: when it runs,
  // the gradients' memory belongs to the weight part of another microbatch.
  absl::Status CompileSplit() {
    std::set<ValueId> handed_on;
    for (NodeId node : stage_.weight_gradient)
      for (ValueId input : graph_.node(node).inputs)
        if (input != kNoValue && graph_.value(input).producer.value() >= training_.forward_nodes)
          handed_on.insert(input);
    for (const ParameterGradient& g : stage_.gradients) handed_on.insert(g.gradient);
    buffers_.KeepInSlot(handed_on);
    input_.Receive(stage_.gradients_received);
    std::vector<ValueId> needed = ValuesOf(stage_.gradients_sent);
    PD_RETURN_IF_ERROR(input_.Compile(plan_.Order(stage_.input_gradient), needed, false));
    PD_RETURN_IF_ERROR(input_.Send(stage_.gradients_sent));
    buffers_.ForgetTemporaries();

    buffers_.KeepInSlot({});
    return weight_.Compile(plan_.Order(stage_.weight_gradient), {}, true);
  }

  const TrainingGraph& training_;
  const Graph& graph_;
  const StageGraph& stage_;
  const CompileOptions& options_;
  const BackwardPlan plan_;
  StageBuffers buffers_;
  ProgramCompiler forward_, backward_, input_, weight_;
  std::vector<int> load_buffers_;
  int loss_ = -1;
  int correct_ = -1;
};

}  // namespace

absl::StatusOr<CompiledStage> CompileStage(const TrainingGraph& training, const StageGraph& stage,
                                           const KernelBackend& backend, int64_t samples,
                                           const CompileOptions& options, StageLayout* layout) {
  return StageCompiler(training, stage, backend, options, layout).Compile(samples);
}

}  // namespace pipedream
