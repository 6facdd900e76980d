#include "worker/engine/ledger_recorder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ostream>

#include "common/schedule/ledger_check.h"
#include "common/schedule/schedules.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/simulation.h"

namespace pipedream {
namespace {

// 37 samples in minibatches of 8, the last one of 5; with microbatches of 2 its last one is empty.
SimulationOptions Options(const SmallJob& job, std::string schedule, int microbatches,
                          std::vector<int> replicas) {
  SimulationOptions options;
  options.model = job.model();
  options.spec = job.Spec();
  options.spec.schedule = std::move(schedule);
  options.spec.microbatches = microbatches;
  options.train = job.train();
  options.evaluation = job.evaluation();
  options.run = MakeRunShape(options.spec, job.train()->rows(), job.evaluation()->rows());
  options.stage_of = job.EvenStages(static_cast<int>(replicas.size()));
  options.replicas = std::move(replicas);
  return options;
}

IsFilled FilledIn(const RunShape& run) {
  return [run](MicrobatchId i) { return TrainingSamples(run, i).count > 0; };
}

struct RecorderCase {
  const char* schedule;
  int microbatches;
  std::vector<int> replicas;
  int devices = 0;  // 0: as many as stages
};
void PrintTo(const RecorderCase& c, std::ostream* out) { *out << c.schedule; }

class LedgerRecorderTest : public testing::TestWithParam<RecorderCase> {};

TEST_P(LedgerRecorderTest, NotesWhatTheScheduleAndItsFormulaSay) {
  SmallJob job;
  SimulationOptions options =
      Options(job, GetParam().schedule, GetParam().microbatches, GetParam().replicas);
  ASSERT_OK_AND_ASSIGN(const ScheduleInfo* info, FindSchedule(options.spec.schedule));
  const int stages = static_cast<int>(options.replicas.size());
  if (GetParam().devices > 0)
    options.device_of = info->place(GetParam().devices, stages / GetParam().devices);
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, ShapeOf(options));
  ASSERT_OK_AND_ASSIGN(SimulationResult result, Simulate(options));
  EXPECT_EQ(result.minibatches, shape.minibatches());
  const IsFilled filled = FilledIn(options.run);
  auto fault = FindMissing(result.ledger, shape, filled);
  ASSERT_FALSE(fault) << fault->ToString();
  fault = FindDeparture(result.ledger, shape, info->policy);
  ASSERT_FALSE(fault) << fault->ToString();
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms(info->name, shape));
  fault = FindDeparture(result.ledger, programs, filled);
  ASSERT_FALSE(fault) << fault->ToString();
  fault = FindUnequalReplicas(result.ledger);
  ASSERT_FALSE(fault) << fault->ToString();
  for (const StageLedger& stage : result.ledger.stages) {
    // Ten minibatches: every version has its digest.
    EXPECT_EQ(std::ssize(stage.digests), UpdateCount(shape, info->policy, stage.stage) + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, LedgerRecorderTest,
    testing::Values(RecorderCase{"1f1b", 4, {1, 1, 1}}, RecorderCase{"gpipe", 4, {2, 1}},
                    RecorderCase{"pipedream", 1, {1, 1, 1}},
                    RecorderCase{"pipedream", 1, {3, 1, 2}},
                    RecorderCase{"pipedream_vsync", 1, {1, 1, 1}},
                    RecorderCase{"2bw", 4, {1, 1, 1}}, RecorderCase{"2bw", 4, {1, 2}},
                    RecorderCase{"paci", 4, {1, 1, 1}}, RecorderCase{"zb_h1", 4, {1, 1, 1}},
                    RecorderCase{"zb_v", 4, {1, 1, 1, 1}, 2},
                    RecorderCase{"interleaved", 4, {1, 1, 1, 1}, 2}),
    [](const auto& info) {
      return std::string(info.param.schedule == std::string("1f1b")  ? "OneFOneB"
                         : info.param.schedule == std::string("2bw") ? "TwoBw"
                                                                     : info.param.schedule) +
             std::to_string(info.index);
    });

// The digest of a version is that of the weights, whatever the layout and the cut: the two halves
// of a run on two stages hash what the halves of another hold.
TEST(LedgerRecorderDigestTest, TellsVersionsApartAndDoesNotDependOnTheSchedule) {
  SmallJob job;
  ASSERT_OK_AND_ASSIGN(SimulationResult plain, Simulate(Options(job, "1f1b", 4, {1, 1})));
  ASSERT_OK_AND_ASSIGN(SimulationResult other, Simulate(Options(job, "gpipe", 4, {1, 1})));
  ASSERT_OK_AND_ASSIGN(SimulationResult stale, Simulate(Options(job, "2bw", 4, {1, 1})));
  for (size_t s : {0, 1}) {
    const std::vector<WeightDigest>& digests = plain.ledger.stages[s].digests;
    EXPECT_EQ(digests, other.ledger.stages[s].digests);
    for (size_t i = 1; i < digests.size(); ++i) EXPECT_NE(digests[i].hash, digests[i - 1].hash);
    // 2BW: the same initial weights and first update; the second one reads version 0 again.
    EXPECT_EQ(stale.ledger.stages[s].digests[1], digests[1]);
    EXPECT_NE(stale.ledger.stages[s].digests[2], digests[2]);
  }
}

// A program with one wrong version in it, as a bug in a pass would make it: the weights are there,
// so the run goes through, and only the ledger tells.
TEST(LedgerRecorderSabotageTest, AProgramThatReadsAnotherVersionIsNamed) {
  SmallJob job;
  SimulationOptions options = Options(job, "pipedream", 1, {1, 1, 1});
  options.evaluation = nullptr;
  options.run.evaluation_samples = 0;
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, ShapeOf(options));
  ASSERT_OK_AND_ASSIGN(options.programs, MakePrograms("pipedream", shape));
  // Stage 0 reads version i - 2 and has versions i - 3 and i - 2 alive: microbatch 6 reads 3.
  std::vector<Instruction> flat = Unroll(options.programs[0]);
  for (Instruction& instruction : flat) {
    if ((instruction.op == Op::kForward || instruction.op == Op::kBackward) &&
        instruction.microbatch == MicrobatchId(6))
      instruction.version = WeightVersion(3);
  }
  options.programs[0].blocks = {{1, 0, 0, 0, 0, flat}};
  ASSERT_OK_AND_ASSIGN(SimulationResult result, Simulate(options));
  auto fault = FindDeparture(result.ledger, shape, WeightPolicy::kStash);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->ToString(),
            "stage 0 replica 0, microbatch 6: its forward reads version 3, expected version 4");
}

TEST(NoLedgerTest, AJobThatWantsNoLedgerHasNone) {
  SmallJob job;
  SimulationOptions options = Options(job, "1f1b", 4, {1, 1});
  ASSERT_OK_AND_ASSIGN(SimulationResult with, Simulate(options));
  options.spec.ledger = false;
  ASSERT_OK_AND_ASSIGN(SimulationResult without, Simulate(options));
  EXPECT_TRUE(without.ledger.stages.empty());
  EXPECT_EQ(with.losses, without.losses);
}

// The beginning of a run that goes on is the beginning of the whole run.
TEST(SimulationStopTest, AStoppedRunHasTheSameBeginning) {
  SmallJob job;
  for (const char* schedule : {"2bw", "pipedream", "paci", "1f1b"}) {
    SCOPED_TRACE(schedule);
    SimulationOptions options =
        Options(job, schedule, schedule == std::string("pipedream") ? 1 : 4, {2, 1, 1});
    ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(options));
    options.stop = [](int64_t minibatches) { return minibatches >= 3; };
    ASSERT_OK_AND_ASSIGN(SimulationResult part, Simulate(options));
    EXPECT_GE(part.minibatches, 3);
    EXPECT_LT(part.minibatches, whole.minibatches);
    for (int64_t t = 0; t < part.minibatches; ++t) EXPECT_EQ(part.losses[t], whole.losses[t]);
    int64_t compared = 0;
    auto fault = FindOtherWeights(whole.ledger, part.ledger, &compared);
    EXPECT_FALSE(fault) << fault->ToString();
    EXPECT_GE(compared, 3 * 4);
  }
}

}  // namespace
}  // namespace pipedream
