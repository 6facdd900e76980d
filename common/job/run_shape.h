// Which samples a microbatch holds: pure arithmetic that every worker does alike, so that no counts
// travel with the tensors.
//
// A minibatch is `batch_size` consecutive samples of the epoch's order (the last one of an epoch
// may be smaller); a microbatch is ceil(batch_size / microbatches) consecutive samples of it (the
// last ones may be smaller or empty). Empty microbatches are neither computed nor sent.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/base/strong_int.h"
#include "common/schedule/schedule_table.h"

namespace pipedream {

struct RunShape {
  int64_t train_samples = 0;
  int64_t evaluation_samples = 0;  // 0: no evaluation
  int64_t batch_size = 0;
  int64_t epochs = 1;
  int microbatches = 1;  // per minibatch
  bool shuffle = true;
  uint64_t seed = 0;
  bool operator==(const RunShape&) const = default;

  int64_t microbatch_size() const { return (batch_size + microbatches - 1) / microbatches; }
  int64_t minibatches_per_epoch() const { return (train_samples + batch_size - 1) / batch_size; }
  int64_t evaluation_microbatches() const {
    return (evaluation_samples + microbatch_size() - 1) / microbatch_size();
  }
};

// kInvalidArgument names the field: counts must be positive, batch_size <= train_samples,
// microbatches <= batch_size.
absl::Status Validate(const RunShape& run);

// Samples of one microbatch: positions [begin, begin + count) of its epoch's order.
struct MicrobatchSamples {
  int64_t epoch = 0;
  int64_t minibatch = 0;  // over the whole run
  int64_t begin = 0;
  int64_t count = 0;
};
// Defined for every microbatch >= 0; beyond the run's end count is 0.
MicrobatchSamples TrainingSamples(const RunShape& run, MicrobatchId microbatch);
// Evaluation microbatch j covers positions of the evaluation set, in order; `epoch` says which
// evaluation it belongs to.
MicrobatchSamples EvaluationSamples(const RunShape& run, MicrobatchId microbatch);

// Dataset row at position `position` of `epoch`'s order: counter-based, a function of the seed
// only.
int64_t TrainingRow(const RunShape& run, int64_t epoch, int64_t position);

// Samples in the given update of a stage whose updates cover `span` microbatches (UpdateSpan of
// weight_policy.h). A microbatch's gradient enters with weight count / UpdateSamples.
int64_t UpdateSamples(const RunShape& run, int64_t span, int64_t update);

// The distinct non-zero microbatch sizes of training and evaluation, descending.
std::vector<int64_t> MicrobatchSizes(const RunShape& run);

// One stage per device, a chain; callers say otherwise in the result.
ScheduleShape MakeScheduleShape(const RunShape& run, std::vector<int> replicas,
                                std::vector<int> warmup, bool global_norm);

}  // namespace pipedream
