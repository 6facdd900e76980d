#include "worker/engine/stage_executor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "common/schedule/schedules.h"
#include "tests/support/small_job.h"
#include "tests/support/small_models.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/engine/bit_equal.h"

namespace pipedream {
namespace {

std::shared_ptr<const Model> SkipModel(const std::string& folder) {
  auto model = Model::Load(WriteSkipModel(folder));
  EXPECT_OK(model);
  return *model;
}

TrainingGraph TrainingOf(const Model& model, const JobSpec& spec) {
  auto forward = model.Bind({2, GraphForm::kTraining, {}, {}});
  EXPECT_OK(forward);
  auto training = MakeTrainingGraph(*forward, spec.loss);
  EXPECT_OK(training);
  return *std::move(training);
}

SimulationOptions Options(const SmallJob& job, std::shared_ptr<const Model> model,
                          const JobSpec& spec, std::vector<int> replicas) {
  SimulationOptions options;
  options.model = std::move(model);
  options.spec = spec;
  options.train = job.train();
  options.evaluation = job.evaluation();
  options.run = MakeRunShape(spec, job.train()->rows(), job.evaluation()->rows());
  const int stages = static_cast<int>(replicas.size());
  const TrainingGraph training = TrainingOf(*options.model, spec);
  for (int n = 0; n < training.forward_nodes; ++n)
    options.stage_of.push_back(n * stages / training.forward_nodes);
  options.replicas = std::move(replicas);
  return options;
}

std::vector<StageProgram> ProgramsOf(const SimulationOptions& options) {
  auto shape = ShapeOf(options);
  EXPECT_OK(shape);
  auto programs = MakePrograms(options.spec.schedule, *shape);
  EXPECT_OK(programs);
  return *std::move(programs);
}

void Replace(StageProgram* program, std::vector<Instruction> instructions) {
  ProgramBlock block;
  block.body = std::move(instructions);
  program->blocks = {std::move(block)};
}

// Every backward in two parts, the second as late as slots and updates allow.
void SplitBackward(StageProgram* program) {
  std::vector<Instruction> out, waiting;
  auto flush = [&] {
    out.insert(out.end(), waiting.begin(), waiting.end());
    waiting.clear();
  };
  for (Instruction instruction : Unroll(*program)) {
    const bool reuses = instruction.op == Op::kForward &&
                        std::ranges::count(waiting, instruction.slot, &Instruction::slot) > 0;
    const bool updates = instruction.op == Op::kStep || instruction.op == Op::kReduce;
    if (reuses || updates) flush();
    if (instruction.op == Op::kBackward) {
      instruction.op = Op::kBackwardWeight;
      waiting.push_back(instruction);
      instruction.op = Op::kBackwardInput;
    }
    out.push_back(instruction);
  }
  Replace(program, std::move(out));
}

struct ExecutorCase {
  const char* name;
  const char* schedule;
  std::vector<int> replicas;
};
void PrintTo(const ExecutorCase& c, std::ostream* out) { *out << c.name; }

class StageExecutorTest : public testing::TestWithParam<ExecutorCase> {
 protected:
  StageExecutorTest() : spec_(job_.Spec()) {
    spec_.schedule = GetParam().schedule;
    if (spec_.schedule != "pipedream") spec_.microbatches = 3;
  }
  SmallJob job_;
  JobSpec spec_;
};

TEST_P(StageExecutorTest, BackwardInTwoPartsChangesNothing) {
  SimulationOptions options = Options(job_, job_.model(), spec_, GetParam().replicas);
  ASSERT_OK_AND_ASSIGN(SimulationResult fused, Simulate(options));
  options.programs = ProgramsOf(options);
  for (StageProgram& program : options.programs) SplitBackward(&program);
  ASSERT_OK_AND_ASSIGN(SimulationResult split, Simulate(options));
  ExpectBitEqual(fused, split);
  options.recompute.enabled = true;
  ASSERT_OK_AND_ASSIGN(SimulationResult again, Simulate(options));
  ExpectBitEqual(fused, again);
}

TEST_P(StageExecutorTest, ComputingAgainChangesNothing) {
  SimulationOptions options = Options(job_, job_.model(), spec_, GetParam().replicas);
  ASSERT_OK_AND_ASSIGN(SimulationResult kept, Simulate(options));
  options.recompute.enabled = true;
  ASSERT_OK_AND_ASSIGN(SimulationResult again, Simulate(options));
  ExpectBitEqual(kept, again);
  options.recompute.checkpoints = {NodeId(3), NodeId(7)};
  ASSERT_OK_AND_ASSIGN(SimulationResult checkpoints, Simulate(options));
  ExpectBitEqual(kept, checkpoints);

  // As a job says it.
  options.recompute = {};
  options.spec.recompute = {true, {"pool*", "relu2"}};
  ASSERT_OK_AND_ASSIGN(SimulationResult spec, Simulate(options));
  ExpectBitEqual(kept, spec);
  EXPECT_LT(spec.memory_bytes, kept.memory_bytes);
  options.spec.recompute.checkpoints = {"pol1"};
  EXPECT_THAT(Simulate(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("recompute: no node of the model is called 'pol1'; did "
                                          "you mean 'pool1'?")));
}

INSTANTIATE_TEST_SUITE_P(Schedules, StageExecutorTest,
                         testing::Values(ExecutorCase{"One", "1f1b", {1}},
                                         ExecutorCase{"Flush", "1f1b", {1, 1, 1}},
                                         ExecutorCase{"GPipe", "gpipe", {1, 1}},
                                         ExecutorCase{"Stash", "pipedream", {1, 1, 1}},
                                         ExecutorCase{"ReplicatedStash", "pipedream", {2, 1}},
                                         ExecutorCase{"ReplicatedFlush", "1f1b", {2, 3}}),
                         [](const auto& info) { return std::string(info.param.name); });

class SkipTest : public testing::TestWithParam<int> {};

// Stages that a value skips have no part in its transfer; what is computed stays the same.
TEST_P(SkipTest, IsBitEqualToTheOneProcessRun) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.schedule = "1f1b";
  spec.microbatches = 3;
  std::shared_ptr<const Model> model = SkipModel(job.folder());
  ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(Options(job, model, spec, {1})));
  SimulationOptions options = Options(job, model, spec, std::vector<int>(GetParam(), 1));
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, ShapeOf(options));
  EXPECT_TRUE(std::ranges::any_of(shape.edges, [](ScheduleEdge e) { return e.to - e.from > 1; }));
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    options.interleaving = seed;
    ASSERT_OK_AND_ASSIGN(SimulationResult skips, Simulate(options));
    ExpectBitEqual(whole, skips);
  }
  options.programs = ProgramsOf(options);
  for (StageProgram& program : options.programs) SplitBackward(&program);
  options.recompute.enabled = true;
  ASSERT_OK_AND_ASSIGN(SimulationResult all, Simulate(options));
  ExpectBitEqual(whole, all);
}

INSTANTIATE_TEST_SUITE_P(Stages, SkipTest, testing::Values(3, 4, 6, 9));

TEST(SkipErrorTest, AProgramOfAnotherCutIsRefused) {
  SmallJob job;
  JobSpec spec = job.Spec();
  spec.schedule = "1f1b";
  SimulationOptions options = Options(job, SkipModel(job.folder()), spec, {1, 1, 1});
  // A chain, where the model's values skip stages.
  ASSERT_OK_AND_ASSIGN(
      options.programs,
      MakePrograms("1f1b", MakeScheduleShape(options.run, options.replicas, {}, false)));
  EXPECT_THAT(Simulate(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                          testing::HasSubstr("exchange other messages")));
}

}  // namespace
}  // namespace pipedream
