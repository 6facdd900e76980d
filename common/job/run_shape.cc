#include "common/job/run_shape.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/random.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

// Samples of part `index` when `total` samples are dealt out in parts of `size`.
int64_t PartCount(int64_t total, int64_t size, int64_t index) {
  return std::clamp<int64_t>(total - index * size, 0, size);
}

int64_t MinibatchCount(const RunShape& run, int64_t minibatch_in_epoch) {
  return PartCount(run.train_samples, run.batch_size, minibatch_in_epoch);
}

}  // namespace

absl::Status Validate(const RunShape& run) {
  auto at_least = [](std::string_view field, int64_t value, int64_t least) {
    return value >= least ? absl::OkStatus()
                          : InvalidArgument("{}: {}, expected at least {}", field, value, least);
  };
  PD_RETURN_IF_ERROR(at_least("train_samples", run.train_samples, 1));
  PD_RETURN_IF_ERROR(at_least("evaluation_samples", run.evaluation_samples, 0));
  PD_RETURN_IF_ERROR(at_least("batch_size", run.batch_size, 1));
  PD_RETURN_IF_ERROR(at_least("epochs", run.epochs, 1));
  PD_RETURN_IF_ERROR(at_least("microbatches", run.microbatches, 1));
  if (run.batch_size > run.train_samples) {
    return InvalidArgument(
        "batch_size: {}, but there are only {} training samples: use a smaller batch",
        run.batch_size, run.train_samples);
  }
  if (run.microbatches > run.batch_size) {
    return InvalidArgument(
        "microbatches: {} per minibatch, but batch_size is {}: a microbatch needs a sample",
        run.microbatches, run.batch_size);
  }
  return absl::OkStatus();
}

MicrobatchSamples TrainingSamples(const RunShape& run, MicrobatchId microbatch) {
  MicrobatchSamples samples;
  samples.minibatch = microbatch.value() / run.microbatches;
  samples.epoch = samples.minibatch / run.minibatches_per_epoch();
  const int64_t minibatch = samples.minibatch % run.minibatches_per_epoch();
  const int64_t part = microbatch.value() % run.microbatches;
  const int64_t in_minibatch = MinibatchCount(run, minibatch);
  samples.begin = minibatch * run.batch_size + std::min(part * run.microbatch_size(), in_minibatch);
  if (samples.epoch < run.epochs) {
    samples.count = PartCount(in_minibatch, run.microbatch_size(), part);
  }
  return samples;
}

MicrobatchSamples EvaluationSamples(const RunShape& run, MicrobatchId microbatch) {
  MicrobatchSamples samples;
  const int64_t per_epoch = run.evaluation_microbatches();
  if (per_epoch == 0) return samples;
  samples.epoch = microbatch.value() / per_epoch;
  samples.minibatch = std::min(samples.epoch + 1, run.epochs) * run.minibatches_per_epoch();
  const int64_t part = microbatch.value() % per_epoch;
  samples.begin = part * run.microbatch_size();
  if (samples.epoch < run.epochs) {
    samples.count = PartCount(run.evaluation_samples, run.microbatch_size(), part);
  }
  return samples;
}

int64_t TrainingRow(const RunShape& run, int64_t epoch, int64_t position) {
  if (!run.shuffle) return position;
  return PermuteIndex(position, run.train_samples, run.seed, static_cast<uint64_t>(epoch));
}

int64_t UpdateSamples(const RunShape& run, int64_t span, int64_t update) {
  int64_t samples = 0;
  for (int64_t i = update * span; i < (update + 1) * span; ++i) {
    samples += TrainingSamples(run, MicrobatchId(i)).count;
  }
  return samples;
}

std::vector<int64_t> MicrobatchSizes(const RunShape& run) {
  std::set<int64_t, std::greater<>> sizes;
  const int64_t size = run.microbatch_size();
  auto add_parts = [&](int64_t total) {
    if (total >= size) sizes.insert(size);
    if (total % size != 0) sizes.insert(total % size);
  };
  if (run.train_samples >= run.batch_size) add_parts(run.batch_size);
  add_parts(run.train_samples % run.batch_size);
  add_parts(run.evaluation_samples);
  return {sizes.begin(), sizes.end()};
}

ScheduleShape MakeScheduleShape(const RunShape& run, std::vector<int> replicas,
                                std::vector<int> warmup, bool global_norm) {
  ScheduleShape shape;
  shape.replicas = std::move(replicas);
  shape.minibatches_per_epoch = run.minibatches_per_epoch();
  shape.epochs = run.epochs;
  shape.microbatches_per_minibatch = run.microbatches;
  shape.evaluation_microbatches = run.evaluation_microbatches();
  shape.warmup = std::move(warmup);
  shape.global_norm = global_norm;
  return shape;
}

}  // namespace pipedream
