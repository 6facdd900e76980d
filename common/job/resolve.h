// What a job leaves open and its model answers.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/job/job_spec.h"

namespace pipedream {

// What the model and the loss want of the data: model inputs in their order, then labels in the
// order of loss terms. Cross-entropy labels are int64 with the output's shape less its last axis,
// whose length is the number of classes; MSE targets are float32 in the output's shape. REQUIRES:
// the loss terms name outputs and labels. kInvalidArgument: an unknown output, an output whose
// shape does not suit its loss, a label that two terms want differently.
absl::StatusOr<std::vector<ColumnRequirement>> Requirements(const JobSpec& spec,
                                                            const Model& model);

// Fills in, where the job does not say: the output of a loss term (the model's only one), its label
// (the only column that is no model input; "y" when data is a folder), and columns from data_folder
// (an absent test split means no evaluation). Then checks that the columns are the model's inputs
// and the labels, and that the nodes which recompute names are there. Reads no file's content.
// kInvalidArgument says what is ambiguous, unknown or missing.
absl::StatusOr<JobSpec> ResolveAgainstModel(JobSpec spec, const Model& model);

// Cosine without a total ends with the run.
LrSchedule ResolveSchedule(LrSchedule schedule, const RunShape& run);

}  // namespace pipedream
