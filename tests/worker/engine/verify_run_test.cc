#include "worker/engine/verify_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <ostream>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/schedule/schedules.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// A run to verify: ten minibatches, of four microbatches where the schedule takes them.
class TrainedRun {
 public:
  explicit TrainedRun(const std::string& schedule, std::vector<int> replicas = {1, 1, 1}) {
    SimulationOptions& run = inputs_.run;
    run.model = job_.model();
    run.spec = job_.Spec();
    run.spec.schedule = schedule;
    run.spec.microbatches = schedule.starts_with("pipedream") ? 1 : 4;
    run.train = job_.train();
    run.evaluation = job_.evaluation();
    run.run = MakeRunShape(run.spec, job_.train()->rows(), job_.evaluation()->rows());
    run.stage_of = job_.EvenStages(static_cast<int>(replicas.size()));
    run.replicas = std::move(replicas);
    inputs_.work_folder = job_.folder();
  }

  // Runs as `changed` says; what is verified is the job as it was submitted.
  absl::Status Train(const std::function<void(SimulationOptions*)>& changed = {}) {
    SimulationOptions options = inputs_.run;
    options.interleaving = 7;
    if (changed) changed(&options);
    PD_ASSIGN_OR_RETURN(SimulationResult result, Simulate(options));
    inputs_.ledger = std::move(result.ledger);
    inputs_.losses = std::move(result.loss_sums);
    const std::string path = job_.folder() + "/trained.onnx";
    PD_RETURN_IF_ERROR(job_.model()->Export(result.weights, path));
    PD_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, 1 << 24));
    inputs_.result_sha256 = Sha256Hex(bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<VerifyReport> Verify() { return VerifyRun(inputs_, SystemClock()); }

  VerifyInputs& inputs() { return inputs_; }

 private:
  SmallJob job_;
  VerifyInputs inputs_;
};

std::string Checks(const VerifyReport& report) {
  std::string text;
  for (const VerifyCheck& check : report.checks) {
    constexpr const char* kWords[] = {"passed", "FAILED", "skipped"};
    text += fmt::format("{} {}: {}\n", check.name, kWords[static_cast<int>(check.outcome)],
                        check.detail);
  }
  return text;
}

struct VerifyCase {
  const char* schedule;
  const char* policy;
  std::vector<int> replicas = {1, 1, 1};
};
void PrintTo(const VerifyCase& c, std::ostream* out) { *out << c.schedule; }

class VerifyRunTest : public testing::TestWithParam<VerifyCase> {};

TEST_P(VerifyRunTest, AShortRunIsVerifiedToItsResult) {
  TrainedRun run(GetParam().schedule, GetParam().replicas);
  ASSERT_OK(run.Train());
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_TRUE(report.verified()) << Checks(report);
  EXPECT_EQ(report.declared, GetParam().policy);
  EXPECT_THAT(report.followed, ElementsAre(GetParam().policy)) << Checks(report);
  EXPECT_EQ(report.minibatches, 10);
  EXPECT_EQ(report.replayed, 10);
  EXPECT_THAT(Checks(report),
              testing::AllOf(HasSubstr("losses passed: equal bit for bit in 10 of 10"),
                             HasSubstr("weights passed: "), HasSubstr("result passed: "),
                             testing::Not(HasSubstr("skipped"))));
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, VerifyRunTest,
    testing::Values(VerifyCase{"1f1b", "flush"}, VerifyCase{"gpipe", "flush", {2, 1}},
                    VerifyCase{"zb_h1", "flush"}, VerifyCase{"pipedream", "stash"},
                    VerifyCase{"pipedream", "stash", {2, 1, 1}},
                    VerifyCase{"pipedream_vsync", "vsync"}, VerifyCase{"2bw", "2bw"},
                    VerifyCase{"2bw", "2bw", {2, 1}}, VerifyCase{"paci", "single"}),
    [](const auto& info) {
      return std::string(info.param.policy == std::string("2bw") ? "double" : info.param.policy) +
             std::to_string(info.index);
    });

TEST(VerifyRunStepsTest, ReplaysAsManyMinibatchesAsAsked) {
  TrainedRun run("2bw");
  ASSERT_OK(run.Train());
  run.inputs().minibatches = 3;
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_TRUE(report.verified()) << Checks(report);
  EXPECT_EQ(report.replayed, 3);
  EXPECT_THAT(Checks(report), HasSubstr("losses passed: equal bit for bit in 3 of 10"));
  EXPECT_THAT(Checks(report), HasSubstr("result skipped: 3 of 10 minibatches were replayed"));
}

TEST(VerifyRunStepsTest, ReplaysTwoMinibatchesHoweverLongTheyTake) {
  TrainedRun run("1f1b");
  ASSERT_OK(run.Train());
  run.inputs().budget_s = 0;
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_EQ(report.replayed, 2);
}

TEST(VerifyRunStepsTest, LossesMayBeReportedTogether) {
  TrainedRun run("pipedream");
  ASSERT_OK(run.Train());
  std::vector<LossSum>& losses = run.inputs().losses;
  for (int i = 0; i < 5; ++i) {
    const LossSum &a = losses[2 * i], &b = losses[2 * i + 1];
    losses[i] = {a.first_minibatch, b.last_minibatch, a.loss_sum + b.loss_sum,
                 a.samples + b.samples};
  }
  losses.resize(5);
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_TRUE(report.verified()) << Checks(report);
  EXPECT_THAT(Checks(report), HasSubstr("losses passed: equal bit for bit in 10 of 10"));
}

// A schedule of the user's own has no formula; its table says what it promises. Here stage 0 keeps
// the version that it has read for one microbatch longer than the rule would.
TEST(VerifyRunTableTest, ATableIsItsOwnPromise) {
  TrainedRun run("pipedream");
  SimulationOptions& options = run.inputs().run;
  options.evaluation = nullptr;
  options.run.evaluation_samples = 0;
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, SimulatedPrograms(options));
  std::vector<Instruction> flat = Unroll(programs[0]);
  for (Instruction& instruction : flat) {
    if ((instruction.op == Op::kForward || instruction.op == Op::kBackward) &&
        instruction.microbatch == MicrobatchId(6))
      instruction.version = WeightVersion(3);
  }
  programs[0].blocks = {{1, 0, 0, 0, 0, flat}};
  options.programs = programs;
  ASSERT_OK(run.Train());
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_THAT(Checks(report), HasSubstr("semantics FAILED: left stash at stage 0 replica 0, "
                                        "microbatch 6: its forward reads version 3, expected "
                                        "version 4"))
      << "pipedream has a formula";
  options.spec.schedule = "my own";
  ASSERT_OK_AND_ASSIGN(report, run.Verify());
  EXPECT_TRUE(report.verified()) << Checks(report);
  EXPECT_THAT(report.followed, testing::IsEmpty());
  EXPECT_THAT(Checks(report), HasSubstr("semantics passed: followed the table, which is no stash "
                                        "by the rule"));
}

TEST(VerifyRunDepartureTest, NamesTheSemanticsThatTheRunFollowedInstead) {
  TrainedRun run("2bw");
  ASSERT_OK(run.Train([](SimulationOptions* options) { options->spec.schedule = "1f1b"; }));
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_FALSE(report.verified());
  EXPECT_EQ(report.declared, "2bw");
  EXPECT_THAT(report.followed, ElementsAre("flush"));
  // Version 1 is read in minibatch 1 already; its losses are the first that differ.
  EXPECT_THAT(
      Checks(report),
      HasSubstr("semantics FAILED: left 2bw at stage 0 replica 0, microbatch 4: its forward "
                "reads version 1, expected version 0; the run as a whole followed flush"));
  EXPECT_THAT(Checks(report), HasSubstr("losses FAILED: minibatch 1: "));
}

TEST(VerifyRunDepartureTest, OneWrongEntryIsNamedExactly) {
  TrainedRun run("2bw");
  ASSERT_OK(run.Train());
  VersionLedger changed;
  run.inputs().ledger.stages[1].versions.ForEach([&](LedgerEntry entry) {
    if (entry.microbatch == 21) ++entry.backward;
    changed.Append(entry);
    return true;
  });
  run.inputs().ledger.stages[1].versions = changed;
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_FALSE(report.verified());
  EXPECT_THAT(report.followed, testing::IsEmpty());
  EXPECT_THAT(Checks(report),
              HasSubstr("left 2bw at stage 1 replica 0, microbatch 21: its backward reads version "
                        "5, expected version 4; the run as a whole followed no known semantics"));
  EXPECT_THAT(Checks(report), HasSubstr("losses passed"));
  EXPECT_THAT(Checks(report), HasSubstr("result passed"));
}

TEST(VerifyRunDepartureTest, WeightsThatAreNotTheRunsAreFound) {
  TrainedRun run("2bw");
  ASSERT_OK(run.Train());
  run.inputs().ledger.stages[2].digests[3].hash ^= 1;
  run.inputs().result_sha256[0] ^= 1;
  run.inputs().losses[7].loss_sum *= 1 + 1e-15;
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_THAT(Checks(report), HasSubstr("semantics passed"));
  EXPECT_THAT(Checks(report), HasSubstr("losses FAILED: minibatch 7: "));
  EXPECT_THAT(Checks(report), HasSubstr("weights FAILED: stage 2 replica 0: the weights of version "
                                        "3 have digest "));
  EXPECT_THAT(Checks(report), HasSubstr("result FAILED: the replay exports another model"));
}

TEST(VerifyRunDepartureTest, AnotherRunIsNotTakenForThisOne) {
  TrainedRun run("1f1b");
  ASSERT_OK(
      run.Train([](SimulationOptions* options) { options->spec.learning_rate.base *= 1.01; }));
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_THAT(Checks(report), HasSubstr("semantics passed"));
  EXPECT_THAT(Checks(report), HasSubstr("losses FAILED: minibatch 1: "));
  EXPECT_THAT(Checks(report), HasSubstr("weights FAILED: "));
  EXPECT_THAT(Checks(report), HasSubstr("the weights of version 1 have digest"));
}

TEST(VerifyRunDepartureTest, AnIncompleteLedgerSaysWhatIsMissing) {
  TrainedRun run("1f1b");
  ASSERT_OK(run.Train());
  run.inputs().ledger.stages.pop_back();
  ASSERT_OK_AND_ASSIGN(VerifyReport report, run.Verify());
  EXPECT_FALSE(report.verified());
  EXPECT_THAT(Checks(report), HasSubstr("ledger FAILED: stage 2 replica 0: the ledger holds "
                                        "nothing of it, expected this stage replica"));
  EXPECT_THAT(Checks(report), HasSubstr("semantics skipped"));
}

TEST(VerifyRunCancelTest, EndsWhenTheCallerIsGone) {
  TrainedRun run("1f1b");
  ASSERT_OK(run.Train());
  int asked = 0;
  run.inputs().cancelled = [&] { return ++asked > 20; };
  EXPECT_THAT(run.Verify(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("caller")));
  EXPECT_EQ(asked, 21);
}

}  // namespace
}  // namespace pipedream
