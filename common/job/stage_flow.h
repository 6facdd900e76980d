// What the stages of a job exchange: from a model and its cut to the edges and ties of a schedule.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/graph/model.h"
#include "common/graph/training_graph.h"
#include "common/job/job_spec.h"
#include "common/schedule/schedule_shape.h"

namespace pipedream {

// A job's model, bound to `batch` samples, with loss and gradients. `stage_of` as for
// MakeTrainingGraph. Errors: as Model::Bind and MakeTrainingGraph.
absl::StatusOr<TrainingGraph> BindTraining(const Model& model, const JobSpec& spec, int64_t batch,
                                           const std::vector<int>& stage_of = {});
// In its inference form, with the loss only.
absl::StatusOr<TrainingGraph> BindEvaluation(const Model& model, const JobSpec& spec,
                                             int64_t batch);

// The forward nodes that spec.recompute.checkpoints names, ascending. kInvalidArgument: a pattern
// that matches none.
absl::StatusOr<std::vector<NodeId>> CheckpointNodes(const JobSpec& spec,
                                                    const TrainingGraph& training);

// The evaluation form has other nodes than the training form; those of one name share a stage, and
// a node without namesake goes where its last input is made.
std::vector<int> EvaluationStages(const TrainingGraph& training, const std::vector<int>& stage_of,
                                  const TrainingGraph& evaluation);

// Sets shape->edges (left empty for a chain) and shape->tied_stages for a cut into shape->stages()
// stages, by forward node of the training graph. Errors: as CutStages.
absl::Status SetStageFlow(const Model& model, const JobSpec& spec, const std::vector<int>& stage_of,
                          ScheduleShape* shape);

}  // namespace pipedream
