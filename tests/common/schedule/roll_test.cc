#include "common/schedule/roll.h"

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

int64_t StoredInstructions(const StageProgram& program) {
  int64_t stored = 0;
  for (const ProgramBlock& block : program.blocks) stored += std::ssize(block.body);
  return stored;
}

std::vector<Instruction> Walk(const std::vector<ProgramBlock>& blocks) {
  StageProgram program;
  program.blocks = blocks;
  return Unroll(program);
}

std::vector<Instruction> ParseRow(const std::string& row) {
  return ParseTable("schedule x replicas=1\ns0.r0: " + row + "\n")->programs[0];
}

TEST(Roll, FindsTheLoopWithItsStrides) {
  std::string text;
  for (int k = 0; k < 9; ++k) {
    text += fmt::format("F{}@v{} B{}@v{} U{}->v{} ", 2 * k, k, 2 * k, k, k, k + 1);
  }
  std::vector<Instruction> row = ParseRow(text + "E0@v9");
  std::vector<ProgramBlock> blocks = RollInstructions(row);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].repeat, 9);
  EXPECT_EQ(blocks[0].microbatch_stride, 2);
  EXPECT_EQ(blocks[0].update_stride, 1);
  EXPECT_EQ(blocks[0].version_stride, 1);
  EXPECT_EQ(blocks[0].evaluation_stride, 0);
  EXPECT_EQ(blocks[0].body, ParseRow("F0@v0 B0@v0 U0->v1"));
  EXPECT_EQ(blocks[1].body, ParseRow("E0@v9"));
  EXPECT_EQ(Walk(blocks), row);
}

TEST(Roll, EmptyAndIrregularProgramsSurvive) {
  EXPECT_TRUE(RollInstructions({}).empty());
  StageProgram empty;
  EXPECT_TRUE(ProgramCursor(empty).done());
  uint32_t seed = TestSeed(5);
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  // Few letters, so that chance repetitions of every length occur.
  std::vector<Instruction> letters =
      ParseRow("F0@v0 F1@v0 F5@v1 B0@v0 U0->v1 E0@v1 P@v0 F0@v0#1 R0 U7");
  for (int k = 0; k < 300; ++k) {
    std::vector<Instruction> row(random() % 200);
    size_t used = 1 + random() % letters.size();
    for (Instruction& instruction : row) instruction = letters[random() % used];
    ASSERT_EQ(Walk(RollInstructions(row)), row) << k;
  }
}

TEST(Roll, WorkerThatDoesNotExistIsRefused) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, (*FindSchedule("1f1b"))->build(MakeShape({1, 2}, 3)));
  EXPECT_OK(Roll(table, {StageId(1), ReplicaId(1)}));
  for (auto [stage, replica] : {std::pair{2, 0}, {0, 1}, {-1, 0}, {0, -1}}) {
    EXPECT_THAT(Roll(table, {StageId(stage), ReplicaId(replica)}),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("no worker")));
  }
}

struct RolledRun {
  const char* name;
  const char* schedule;
  ScheduleShape shape;
};

class RolledRuns : public testing::TestWithParam<RolledRun> {};

TEST_P(RolledRuns, RollsToAFewThousandInstructions) {
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs,
                       MakePrograms(GetParam().schedule, GetParam().shape));
  int64_t microbatches = GetParam().shape.microbatches();
  for (const StageProgram& program : programs) {
    EXPECT_LT(StoredInstructions(program), 5000) << program.stage.value();
    int64_t replicas = GetParam().shape.replicas[program.stage.value()];
    EXPECT_GE(program.instruction_count(), microbatches / replicas * 2);
  }
}

#ifdef PIPEDREAM_SANITIZED
constexpr int64_t kScale = 20;
#else
constexpr int64_t kScale = 1;
#endif

INSTANTIATE_TEST_SUITE_P(
    Roll, RolledRuns,
    testing::Values(
        RolledRun{"pipedream", "pipedream", MakeShape({1, 1, 1, 1}, 1'000'000 / kScale)},
        RolledRun{"replicated", "pipedream", MakeShape({3, 2, 1}, 100'000 / kScale)},
        RolledRun{"epochs", "pipedream", MakeShape({2, 1, 1}, 5'001 / kScale, 1, 20, 80)},
        RolledRun{"many_epochs", "pipedream", MakeShape({1, 1}, 300 / kScale, 1, 60, 2)},
        RolledRun{"flush", "1f1b", MakeShape({1, 2, 1}, 2'500 / kScale, 6, 5, 9)},
        RolledRun{"tiny_epochs", "gpipe", MakeShape({1, 1}, 3, 4, 5'000 / kScale, 2)}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pipedream
