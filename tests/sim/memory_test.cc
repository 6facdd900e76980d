// Memory as predicted: what programs say that stages need is what a run holds at most, and what is
// allocated follows from it and from the sizes of the stage's tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/schedule/schedules.h"
#include "tests/sim/random_job.h"
#include "tests/support/status_matchers.h"
#include "worker/device/device.h"
#include "worker/engine/worker_state.h"

namespace pipedream {
namespace {

constexpr int kMemoryDraws = 40;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// What one stage holds at once while its program runs: as if every microbatch had samples, or
// without the empty ones, which are passed over.
class Holdings {
 public:
  Holdings(const SchedulePolicy& policy, const DrawnPipeline& p, int stage,
           const RunShape* without_empty = nullptr)
      : policy_(policy),
        units_per_update_(policy.units_per_update(p, stage)),
        without_empty_(without_empty) {}

  void Run(const Instruction& i) {
    const bool keeps = policy_.backward_version == nullptr;  // from the forward to the backward
    const int64_t unit = i.microbatch.value();
    if (without_empty_ != nullptr && IsCompute(i.op) && i.op != Op::kEvaluate &&
        TrainingSamples(*without_empty_, i.microbatch).count == 0)
      return;
    switch (i.op) {
      case Op::kForward:
        EXPECT_TRUE(slots_.insert(i.slot).second) << Format(i) << ": the slot is in use";
        if (keeps) ++readers_[i.version.value()];
        break;
      case Op::kBackward:
      case Op::kBackwardWeight:
        slots_.erase(i.slot);
        if (keeps) Release(i.version.value());
        updates_.insert(unit / units_per_update_);
        break;
      case Op::kPin:
        ++readers_[i.version.value()];
        break;
      case Op::kUnpin:
        Release(i.version.value());
        break;
      case Op::kStep:
        latest_ = i.version.value();
        updates_.erase(unit);
        break;
      default:
        return;
    }
    used_.slots = std::max(used_.slots, static_cast<int32_t>(slots_.size()));
    const auto alive = readers_.size() + (readers_.contains(latest_) ? 0 : 1);
    used_.versions = std::max(used_.versions, static_cast<int32_t>(alive));
    used_.gradients = std::max(used_.gradients, static_cast<int32_t>(updates_.size()));
  }
  const StageNeeds& used() const { return used_; }

 private:
  void Release(int64_t version) {
    if (--readers_.at(version) == 0) readers_.erase(version);
  }

  const SchedulePolicy& policy_;
  const int64_t units_per_update_;
  const RunShape* const without_empty_;
  std::set<int32_t> slots_;
  std::map<int64_t, int> readers_;  // by version
  std::set<int64_t> updates_;       // whose gradients are being summed, or wait
  int64_t latest_ = 0;
  StageNeeds used_;
};

class MemoryTest : public testing::TestWithParam<SchedulePolicy> {
 protected:
  void Draw(uint32_t seed) {
    draw_ = RandomJobMaker(GetParam(), seed).Make(true);
    job_.emplace(draw_.data);
    options_ = OptionsOf(draw_, *job_);
  }

  int64_t ParameterBytes(int stage) const {
    int64_t bytes = 0;
    for (size_t l = 0; l < draw_.layer_stage.size(); ++l) {
      if (draw_.layer_stage[l] != stage) continue;
      const int64_t inputs = draw_.data.sizes[l], outputs = draw_.data.sizes[l + 1];
      bytes += Aligned(4 * inputs * outputs) + Aligned(4 * outputs);
    }
    return bytes;
  }

  int OptimizerTensors() const {
    if (draw_.spec.optimizer.kind != OptimizerKind::kSgd) return 2;
    return draw_.spec.optimizer.momentum > 0 ? 1 : 0;
  }

  // Of one message between the stages s and s + 1, whichever way.
  int64_t MessageBytes(int s) const {
    const size_t last = std::upper_bound(draw_.layer_stage.begin(), draw_.layer_stage.end(), s) -
                        draw_.layer_stage.begin();
    return Aligned(4 * options_.run.microbatch_size() * draw_.data.sizes[last]);
  }

  // Replicas of stage `other` that exchange units with this one: of training, or of either.
  int64_t Partners(const Peer& self, int other, bool evaluation) const {
    const ScheduleShape& shape = options_.programs[0].shape;
    std::set<int32_t> partners;
    auto add = [&](int64_t units) {
      for (int64_t u = 0; u < units; ++u)
        if (ReplicaOf(shape, self.stage, MicrobatchId(u)) == self.replica)
          partners.insert(ReplicaOf(shape, StageId(other), MicrobatchId(u)).value());
    };
    add(shape.microbatches());
    if (evaluation) add(shape.epochs * shape.evaluation_microbatches);
    return std::ssize(partners);
  }

  int64_t ChannelBytes(const Peer& self) const {
    const ScheduleShape& shape = options_.programs[0].shape;
    int64_t bytes = 0;
    for (int other : {self.stage.value() - 1, self.stage.value() + 1}) {
      if (other < 0 || other >= shape.stages()) continue;
      const int64_t channels = Partners(self, other, true) + Partners(self, other, false);
      bytes += channels * options_.programs[0].channel_slots *
               MessageBytes(std::min(other, self.stage.value()));
    }
    return bytes;
  }

  int64_t Predicted(const StageState& stage, const StageNeeds& needs) const {
    const int s = stage.stage.value();
    const int64_t parameters = ParameterBytes(s);
    EXPECT_EQ(static_cast<int64_t>(stage.layout.parameter_bytes), parameters);
    const bool sums = GetParam().units_per_update(draw_.pipeline, s) > draw_.pipeline.replicas[s];
    const int64_t optimizer = OptimizerTensors() * (needs.undo ? 2 : 1);
    const int64_t copies = needs.versions + needs.gradients + (sums ? 1 : 0) + optimizer;
    auto size = [](const DeviceBuffer& buffer) { return static_cast<int64_t>(buffer.size()); };
    return copies * parameters + needs.slots * size(stage.slots[0]) + size(stage.arena) +
           size(stage.states) + size(stage.undo_states) + size(stage.constants) +
           ChannelBytes({stage.stage, stage.replica});
  }

  RandomJob draw_;
  std::optional<FormulaJob> job_;
  SimulationOptions options_;
};

TEST_P(MemoryTest, NeedsAreWhatARunHoldsAtMost) {
  for (uint32_t seed : TestSeeds(kMemoryDraws)) {
    Draw(seed);
    SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}: {}", seed, draw_.ToString()));
    ASSERT_OK_AND_ASSIGN(const ScheduleShape shape, ShapeOf(options_));
    ASSERT_OK_AND_ASSIGN(options_.programs, MakePrograms(options_.spec.schedule, shape));
    ASSERT_OK_AND_ASSIGN(const SimulationResult result, Simulate(options_));
    for (size_t w = 0; w < options_.programs.size(); ++w) {
      const StageProgram& program = options_.programs[w];
      int64_t versions = 1;
      for (size_t chunk = 0; chunk < program.needs.size(); ++chunk) {
        const int stage = program.stages()[chunk].value();
        Holdings holdings(GetParam(), draw_.pipeline, stage);
        Holdings filled(GetParam(), draw_.pipeline, stage, &options_.run);
        for (const Instruction& instruction : Unroll(program)) {
          if (instruction.chunk != static_cast<int32_t>(chunk)) continue;
          holdings.Run(instruction);
          filled.Run(instruction);
        }
        const StageNeeds &needs = program.needs[chunk], &used = holdings.used();
        const std::string where = fmt::format(
            "stage {} replica {}", program.stages()[chunk].value(), program.replica.value());
        EXPECT_EQ(needs.slots, used.slots) << where;
        EXPECT_EQ(needs.versions, used.versions) << where;
        EXPECT_EQ(needs.gradients, used.gradients) << where;
        versions = std::max<int64_t>(versions, filled.used().versions);
      }
      EXPECT_EQ(result.counters[w].versions_held, versions) << "worker " << w;
    }
    if (HasFailure()) return;
  }
}

TEST_P(MemoryTest, AllocatesWhatFollowsFromTheNeeds) {
  const auto backend = MakeOneDnnBackend();
  const auto device = MakeCpuDevice(1, 0);
  for (uint32_t seed : TestSeeds(kMemoryDraws)) {
    Draw(seed);
    SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}: {}", seed, draw_.ToString()));
    ASSERT_OK_AND_ASSIGN(const ScheduleShape shape, ShapeOf(options_));
    ASSERT_OK_AND_ASSIGN(options_.programs, MakePrograms(options_.spec.schedule, shape));
    ASSERT_OK_AND_ASSIGN(const SimulationResult result, Simulate(options_));
    int64_t predicted = 0;
    for (const StageProgram& program : options_.programs) {
      ASSERT_OK_AND_ASSIGN(
          const auto worker,
          BuildWorker({options_.model, options_.spec, options_.run, options_.stage_of, program, 0,
                       options_.train, options_.evaluation, options_.recompute},
                      *backend, device.get()));
      for (size_t chunk = 0; chunk < worker->stages.size(); ++chunk) {
        const StageState& stage = *worker->stages[chunk];
        const int64_t bytes = Predicted(stage, program.needs[chunk]);
        EXPECT_EQ(stage.memory_bytes, bytes) << "stage " << stage.stage.value();
        predicted += bytes;
      }
    }
    EXPECT_EQ(result.memory_bytes, predicted);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MemoryTest, testing::ValuesIn(kSchedulePolicies),
                         [](const auto& info) { return std::string(info.param.schedule); });

}  // namespace
}  // namespace pipedream
