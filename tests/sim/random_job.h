// Random training jobs, for the engine and for the formula oracle.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/sim/random_pipeline.h"
#include "tests/support/formula_models.h"
#include "tests/support/formula_oracle.h"
#include "worker/engine/simulation.h"

namespace pipedream {

struct RandomJob {
  FormulaJobOptions data;
  JobSpec spec;
  DrawnPipeline pipeline;
  std::vector<int> layer_stage;
  bool evaluate = false;
  uint64_t interleaving = 0;

  std::string ToString() const {
    return fmt::format(
        "{} layers in stages {} x {} replicas on devices {}, depths {}{}, {} samples in {} x {}, "
        "{} epochs, {}, optimizer {} clip {}{}, row {} is {}",
        layer_stage.size(), fmt::join(layer_stage, ","), fmt::join(pipeline.replicas, ","),
        pipeline.device_of.empty() ? "of their own"
                                   : fmt::format("{}", fmt::join(pipeline.device_of, ",")),
        fmt::join(pipeline.depth, ","), pipeline.warmup.empty() ? "" : " as given",
        data.train_samples, spec.batch_size, spec.microbatches, spec.epochs,
        evaluate ? "evaluated" : "not evaluated", pipedream::ToString(spec.optimizer.kind),
        spec.optimizer.clip_norm, spec.on_nonfinite == OnNonFinite::kSkip ? " skip" : "",
        data.broken_row, data.broken_value);
  }
};

// Jobs that a policy's schedule takes: up to 6 stages of up to 3 replicas, depths by the rule or
// given, minibatches that do not fill the epoch, 1 to 3 epochs, any optimizer, clipped or not;
// now and then with a row of data whose gradients are not finite, and skipped updates.
class RandomJobMaker {
 public:
  RandomJobMaker(const SchedulePolicy& policy, uint32_t seed) : policy_(policy), random_(seed) {}

  // `replicated`: some stages have more than one replica where the policy allows it.
  RandomJob Make(bool replicated) {
    RandomJob draw;
    draw.data.seed = random_.Next();
    draw.data.loss = random_.Chance(4) ? FormulaLoss::kMse : FormulaLoss::kCrossEntropy;
    const int chunks = random_.Between(policy_.least_chunks, policy_.most_chunks);
    const int stages = chunks * random_.Between(1, policy_.most_stages / chunks);
    draw.pipeline = DrawPipeline(policy_, stages, chunks, replicated, &random_);
    DrawLayers(stages, &draw);
    DrawSizes(&draw);
    DrawBreak(&draw);
    DrawOptimizer(&draw.spec);
    draw.spec.schedule = policy_.schedule;
    draw.spec.seed = random_.Next();
    draw.spec.shuffle = !random_.Chance(4);
    draw.spec.replica_lr = !random_.Chance(3);
    draw.interleaving = random_.Next();
    return draw;
  }

 private:
  void DrawLayers(int stages, RandomJob* draw) {
    const int layers = random_.Between(stages, stages + 2);
    std::vector<int> first(layers - 1);  // a stage begins at each of stages - 1 of these
    std::iota(first.begin(), first.end(), 1);
    std::shuffle(first.begin(), first.end(), random_.engine());
    first.resize(stages - 1);
    draw->data.sizes = {random_.Between(2, 9)};
    for (int l = 0; l < layers; ++l) {
      draw->data.sizes.push_back(random_.Between(3, 9));
      draw->layer_stage.push_back(static_cast<int>(
          std::count_if(first.begin(), first.end(), [&](int f) { return f <= l; })));
    }
  }

  void DrawSizes(RandomJob* draw) {
    int least = policy_.least_microbatches == nullptr
                    ? 1
                    : static_cast<int>(policy_.least_microbatches(draw->pipeline));
    draw->spec.microbatches = policy_.microbatches ? random_.Between(least, least + 4) : 1;
    draw->pipeline.microbatches = draw->spec.microbatches;
    draw->spec.batch_size =
        random_.Between(draw->spec.microbatches, 2 * draw->spec.microbatches + 4);
    const int batch = static_cast<int>(draw->spec.batch_size);
    draw->data.train_samples = random_.Between(batch, 7 * batch);
    if (batch > 1 && draw->data.train_samples % batch == 0) ++draw->data.train_samples;
    draw->data.evaluation_samples = random_.Between(1, 2 * batch + 1);
    draw->spec.epochs = random_.Between(1, 3);
    draw->evaluate = random_.Chance(2);
    draw->pipeline.units = draw->spec.epochs * draw->spec.microbatches *
                           ((draw->data.train_samples + batch - 1) / batch);
  }

  // An infinite input breaks only the gradient of the first layer (0 times infinity behind a
  // saturated tanh), a NaN all of them.
  void DrawBreak(RandomJob* draw) {
    if (!random_.Chance(3)) return;
    draw->spec.on_nonfinite = OnNonFinite::kSkip;
    if (random_.Chance(4)) return;
    draw->data.broken_row = random_.Between(0, static_cast<int>(draw->data.train_samples) - 1);
    draw->data.broken_value = random_.Chance(2) ? std::numeric_limits<float>::infinity()
                                                : std::numeric_limits<float>::quiet_NaN();
  }

  void DrawOptimizer(JobSpec* spec) {
    OptimizerSpec& o = spec->optimizer;
    o.kind = static_cast<OptimizerKind>(random_.Between(0, 2));
    const bool sgd = o.kind == OptimizerKind::kSgd;
    if (sgd && random_.Chance(2)) o.momentum = 0.8;
    o.nesterov = o.momentum > 0 && random_.Chance(2);
    if (random_.Chance(2)) o.weight_decay = 0.01;
    if (random_.Chance(2)) o.clip_norm = 0.2;
    spec->learning_rate.base = sgd ? 0.05 : 0.005;
    if (!random_.Chance(2)) return;
    spec->learning_rate.kind = LrScheduleKind::kStep;
    spec->learning_rate.warmup = random_.Between(0, 3);
    spec->learning_rate.step_every = random_.Between(1, 5);
    spec->learning_rate.gamma = 0.8;
  }

  const SchedulePolicy& policy_;
  RandomSource random_;
};

inline SimulationOptions OptionsOf(const RandomJob& draw, const FormulaJob& job) {
  SimulationOptions options;
  options.model = job.model();
  options.spec = draw.spec;
  options.spec.loss = job.Spec().loss;
  options.train = job.train();
  if (draw.evaluate) options.evaluation = job.evaluation();
  options.run =
      MakeRunShape(draw.spec, job.train()->rows(), draw.evaluate ? job.evaluation()->rows() : 0);
  options.stage_of = job.StageOfNodes(draw.layer_stage);
  options.replicas = draw.pipeline.replicas;
  options.warmup = draw.pipeline.warmup;
  options.device_of = draw.pipeline.device_of;
  options.interleaving = draw.interleaving;
  return options;
}

// Borrows `draw` and `policy`.
inline FormulaRun FormulaOf(const RandomJob& draw, const SchedulePolicy& policy,
                            const FormulaJob& job) {
  FormulaRun run = job.Run(draw.layer_stage);
  run.units = FormulaUnits(MakeRunShape(draw.spec, job.train()->rows(), 0));
  for (int s = 0; s < std::ssize(draw.pipeline.replicas); ++s)
    run.updates.push_back(
        FormulaUpdates(std::ssize(run.units), policy.units_per_update(draw.pipeline, s)));
  run.forward_version = [&p = draw.pipeline, &policy](int s, int64_t u) {
    return policy.forward_version(p, s, u);
  };
  if (policy.backward_version != nullptr)
    run.backward_version = [&p = draw.pipeline, &policy](int s, int64_t u) {
      return policy.backward_version(p, s, u);
    };
  const bool exact = policy.units_per_norm == nullptr;
  if (!exact) {
    run.norm_of = [&p = draw.pipeline, &policy](int s, int64_t k) {
      return NormOfUpdate(policy, p, s, k);
    };
    run.norm_update = [&p = draw.pipeline, &policy](int s, int64_t n) {
      return UpdateOfNorm(policy, p, s, n);
    };
  }
  if (draw.spec.on_nonfinite == OnNonFinite::kSkip)
    run.skip = exact ? FormulaRun::Skip::kInAllStages : FormulaRun::Skip::kInThatStage;
  run.optimizer = FormulaOptimizerOf(draw.spec.optimizer);
  // An update that covers n minibatches takes an n-fold step, counted against the first stage's.
  run.learning_rate = [&p = draw.pipeline, &spec = draw.spec, &policy](int s, int64_t k) {
    auto minibatches = [&](int stage) {
      return std::max<int64_t>(1, policy.units_per_update(p, stage) / p.microbatches);
    };
    const double factor =
        spec.replica_lr ? static_cast<double>(minibatches(s)) / static_cast<double>(minibatches(0))
                        : 1;
    return factor * FormulaRate(spec.learning_rate, k * minibatches(s));
  };
  return run;
}

}  // namespace pipedream
