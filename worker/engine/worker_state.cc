#include "worker/engine/worker_state.h"

#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/job/stage_flow.h"

namespace pipedream {

std::vector<StageState*> WorkerState::pointers() const {
  std::vector<StageState*> out;
  for (const auto& stage : stages) out.push_back(stage.get());
  return out;
}

int64_t WorkerState::memory_bytes() const {
  int64_t bytes = 0;
  for (const auto& stage : stages) bytes += stage->memory_bytes;
  return bytes;
}

absl::StatusOr<std::map<std::string, Tensor>> WorkerState::Export(
    const KernelBackend& backend) const {
  std::map<std::string, Tensor> out;
  for (const auto& stage : stages) {
    PD_ASSIGN_OR_RETURN(auto tensors, stage->Export(backend));
    out.merge(tensors);
  }
  return out;
}

absl::StatusOr<std::unique_ptr<WorkerState>> BuildWorker(StageInputs inputs,
                                                         const KernelBackend& backend,
                                                         Device* device) {
  auto worker = std::make_unique<WorkerState>();
  worker->program = inputs.program;
  const ScheduleShape& shape = worker->program.shape;
  ScheduleShape expected = shape;
  PD_RETURN_IF_ERROR(SetStageFlow(*inputs.model, inputs.spec, inputs.stage_of, &expected));
  if (expected.edges != shape.edges || expected.tied_stages != shape.tied_stages)
    return InvalidArgument(
        "the program's stages exchange other messages than the model's cut does");
  if (inputs.spec.recompute.enabled) {
    PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(*inputs.model, inputs.spec, 2));
    inputs.recompute.enabled = true;
    PD_ASSIGN_OR_RETURN(inputs.recompute.checkpoints, CheckpointNodes(inputs.spec, training));
  }
  const int chunks = static_cast<int>(worker->program.stages().size());
  const bool all = inputs.recompute.enabled;
  for (inputs.chunk = 0; inputs.chunk < chunks; ++inputs.chunk) {
    const StageId stage = worker->program.stages()[inputs.chunk];
    inputs.recompute.enabled = all || inputs.recompute_stages.contains(stage.value());
    PD_ASSIGN_OR_RETURN(std::unique_ptr<StageState> built, BuildStage(inputs, backend, device));
    worker->stages.push_back(std::move(built));
  }
  return worker;
}

absl::StatusOr<std::vector<std::string>> ColumnsOfWorker(const Model& model, const JobSpec& spec,
                                                         const std::vector<int>& stage_of,
                                                         const StageProgram& program) {
  PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(model, spec, 2, stage_of));
  PD_ASSIGN_OR_RETURN(std::vector<StageGraph> cut,
                      CutStages(training, stage_of, program.shape.stages(), true));
  std::set<std::string> names;
  for (StageId stage : program.stages())
    for (ValueId id : cut[stage.value()].inputs) names.insert(training.graph.value(id).name);
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace pipedream
