// All stages of one worker, built from its program.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/stage_state.h"

namespace pipedream {

struct WorkerState {
  StageProgram program;
  std::vector<std::unique_ptr<StageState>> stages;  // by chunk

  std::vector<StageState*> pointers() const;
  // Allocated, and the slots of its channels.
  int64_t memory_bytes() const;
  // StageState::Export of all stages.
  absl::StatusOr<std::map<std::string, Tensor>> Export(const KernelBackend& backend) const;
};

// BuildStage for every stage of `inputs.program`, with inputs.recompute as the spec wishes it if it
// does. Besides its errors: kInvalidArgument if the program's shape has other edges or ties than
// the model gives, CheckpointNodes'.
absl::StatusOr<std::unique_ptr<WorkerState>> BuildWorker(StageInputs inputs,
                                                         const KernelBackend& backend,
                                                         Device* device);

// Dataset columns that the worker's stages read (inputs and labels of their nodes).
absl::StatusOr<std::vector<std::string>> ColumnsOfWorker(const Model& model, const JobSpec& spec,
                                                         const std::vector<int>& stage_of,
                                                         const StageProgram& program);

}  // namespace pipedream
