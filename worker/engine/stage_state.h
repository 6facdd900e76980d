// All memory and prepared kernels of one stage replica: built before the first step, nothing is
// allocated afterwards.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"
#include "common/schedule/stage_program.h"
#include "worker/device/device.h"
#include "worker/engine/compiled_stage.h"
#include "worker/engine/recompute.h"
#include "worker/engine/weight_store.h"
#include "worker/optim/optimizer.h"

namespace pipedream {

// What a stage is built from; everything outlives the call, nothing is kept but shared pointers.
struct StageInputs {
  std::shared_ptr<const Model> model;
  JobSpec spec;  // resolved: loss terms name output and label
  RunShape run;
  // Forward nodes of the training graph -> stage, as Plan::stage_of().
  std::vector<int> stage_of;
  StageProgram program;
  int chunk = 0;  // which of the program's stages
  // The columns that the stage reads, at least; null if it reads none (or nothing is evaluated).
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> evaluation;
  Recompute recompute = {};
  // Stages that compute again whatever the job says, since the plan does.
  std::set<int> recompute_stages = {};
};

// The largest message exchanged with each other stage.
class MessageSizes {
 public:
  // 0: none.
  size_t of(StageId stage) const {
    auto it = bytes_.find(stage.value());
    return it == bytes_.end() ? 0 : it->second;
  }
  void Grow(const std::vector<CompiledMessage>& messages) {
    for (const CompiledMessage& m : messages) bytes_[m.stage] = std::max(bytes_[m.stage], m.bytes);
  }

 private:
  std::map<int, size_t> bytes_;  // by stage
};

struct StageState {
  JobSpec spec;
  RunShape run;
  StageId stage;
  ReplicaId replica;
  ScheduleShape shape;
  WeightPolicy policy = WeightPolicy::kStash;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> evaluation;
  std::unique_ptr<Optimizer> optimizer;

  StageLayout layout;
  std::map<int64_t, CompiledStage> training;  // by microbatch size
  std::map<int64_t, CompiledStage> evaluating;
  // Position of each layout.parameters entry among all parameters of the model, for the global
  // norm.
  std::vector<int> global_index;
  int global_parameters = 0;
  // All parameters of the model that several stages hold, by name.
  struct Shared {
    size_t floats = 0;
    int global_index = 0;
  };
  std::map<std::string, Shared> shared_parameters;

  std::unique_ptr<WeightStore> weights;
  // Replicated stages advance running statistics once a round, all replicas alike: S becomes
  // m^n S + sum over the round's n microbatches k of (1 - m) m^(n-1-k) x_k, which is what updating
  // in microbatch order gives. Each microbatch leaves (1 - m) x_k in its slot's share.
  std::vector<double> state_momentum;      // per layout.states entry; 0: nothing updates it
  std::vector<DeviceBuffer> state_shares;  // per slot; empty without replicas
  // Sums over an update's microbatches, running-statistics shares behind them; of update u in
  // gradient_sums[u % size].
  std::vector<DeviceBuffer> gradient_sums;
  size_t gradient_floats = 0;         // of each, with the shares
  DeviceBuffer microbatch_gradients;  // of one microbatch, where an update has several here
  std::vector<DeviceBuffer>
      optimizer_state;  // per state tensor of the optimizer, laid out as a version
  // What an update that may be undone leaves behind; empty where none may.
  std::vector<DeviceBuffer> undo_optimizer_state;
  DeviceBuffer undo_states;
  DeviceBuffer states;
  DeviceBuffer constants;
  DeviceBuffer arena;
  std::vector<DeviceBuffer> slots;
  MessageSizes activation_in_bytes, activation_out_bytes;
  MessageSizes gradient_in_bytes, gradient_out_bytes;
  int64_t memory_bytes = 0;  // allocated, and the slots of its channels (both ends of each)

  int replicas() const { return shape.replicas[stage.value()]; }
  std::byte* gradients(int64_t update) const {
    return gradient_sums[static_cast<size_t>(update) % gradient_sums.size()].data();
  }

  // Trained parameters and running statistics, row-major, by name. Call when no step is running.
  absl::StatusOr<std::map<std::string, Tensor>> Export(const KernelBackend& backend) const;
};

// Imports, cuts, compiles and allocates. Errors: as Model::Bind, MakeTrainingGraph, CutStages and
// CompileStage; kInvalidArgument when evaluation reads a parameter on another stage than training;
// kResourceExhausted when the device's memory does not suffice, with what was wanted.
absl::StatusOr<std::unique_ptr<StageState>> BuildStage(const StageInputs& inputs,
                                                       const KernelBackend& backend,
                                                       Device* device);

}  // namespace pipedream
