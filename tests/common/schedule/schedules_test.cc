#include "common/schedule/schedules.h"

#include <fstream>
#include <sstream>

#include "common/schedule/validate.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(PIPEDREAM_SOURCE_DIR "/tests/golden/schedules/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Golden : public testing::TestWithParam<const char*> {};

// Each table was written from the definitions of the schedules, not by this code. The header says
// which schedule and shape.
TEST_P(Golden, TableIsAsDefined) {
  std::string golden = ReadGolden(GetParam());
  ASSERT_OK_AND_ASSIGN(ScheduleTable expected, ParseTable(golden));
  EXPECT_OK(ValidateTable(expected));
  ASSERT_OK_AND_ASSIGN(const ScheduleInfo* info, FindSchedule(expected.name));
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, info->build(expected.shape));
  ASSERT_OK_AND_ASSIGN(table, LowerTable(table));
  EXPECT_EQ(FormatTable(table), golden);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Golden,
                         testing::Values("pipedream_4x1_8.txt", "pipedream_2_1_5.txt",
                                         "pipedream_2x1_evaluation.txt", "1f1b_4x1_m4.txt",
                                         "1f1b_2_1_m3.txt", "gpipe_3x1_m4.txt",
                                         "pipedream_vsync_3x1_6.txt", "2bw_3x1_m3.txt",
                                         "paci_3x1_m2.txt", "interleaved_3x2_m6.txt",
                                         "zb_h1_3x1_m4.txt", "zb_h2_3x1_m6.txt",
                                         "zb_v_3x2_m7.txt"));

TEST(Schedules, UnknownNameListsTheKnown) {
  EXPECT_THAT(FindSchedule("zigzag"), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("pipedream, pipedream_vsync, 2bw")));
  EXPECT_THAT(MakePrograms("zigzag", MakeShape({1}, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zigzag")));
}

TEST(Schedules, PipedreamTakesOneMicrobatchPerMinibatch) {
  EXPECT_THAT(
      MakePrograms("pipedream", MakeShape({1, 1}, 4, 2)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("microbatches_per_minibatch: 2")));
}

TEST(Schedules, TiedStagesNeedUpdatesAtOneTime) {
  ScheduleShape shape = MakeShape({1, 1, 1}, 4);
  shape.tied_stages = {0, 2};
  for (const char* schedule : {"pipedream", "pipedream_vsync", "paci"}) {
    EXPECT_THAT(MakePrograms(schedule, shape), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        HasSubstr("need a synchronous schedule")));
  }
  EXPECT_OK(MakePrograms("1f1b", shape));
  EXPECT_OK(MakePrograms("2bw", shape));
}

TEST(Schedules, EveryReplicaNeedsAMicrobatchOfAnAsynchronousMinibatch) {
  for (const char* schedule : {"2bw", "paci"}) {
    EXPECT_THAT(MakePrograms(schedule, MakeShape({3, 1}, 4, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 at stage 0")));
  }
}

TEST(Schedules, PassRefusesABackwardWithoutForward) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable table,
                       ParseTable("schedule x policy=stash replicas=1\ns0.r0: B0 U0\n"));
  EXPECT_THAT(LowerTable(table),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("B0 has no forward")));
}

TEST(Schedules, FewerMicrobatchesThanStages) {
  for (const ScheduleInfo& info : AllSchedules()) {
    SCOPED_TRACE(std::string(info.name));
    if (info.name == "data_parallel") continue;
    for (ScheduleShape shape : {MakeShape({1, 1, 1, 1, 1, 1}, 1), MakeShape({3, 3}, 1),
                                MakeShape({2, 2, 2, 2}, 2, 1, 2, 1)}) {
      if (UpdatesByMinibatch(info) && !info.synchronous && shape.replicas[0] > 1) continue;
      if (info.place != nullptr) shape.device_of = info.place(shape.stages() / 2, 2);
      EXPECT_OK(MakePrograms(info.name, shape));
    }
    if (info.place == nullptr && (info.synchronous || !UpdatesByMinibatch(info))) {
      EXPECT_OK(MakePrograms(info.name, MakeShape({3, 2, 1}, 2, 1, 2, 1)));
    }
  }
}

// Depth goes on across the end of an epoch: without evaluation, epochs leave no trace.
TEST(Schedules, PipedreamDoesNotDrainBetweenEpochs) {
  const ScheduleInfo* info = *FindSchedule("pipedream");
  ASSERT_OK_AND_ASSIGN(ScheduleTable twice, info->build(MakeShape({1, 2, 1}, 5, 1, 2)));
  ASSERT_OK_AND_ASSIGN(ScheduleTable once, info->build(MakeShape({1, 2, 1}, 10)));
  EXPECT_EQ(twice.programs, once.programs);
}

TEST(Schedules, RandomShapesAreValidAndRollWithoutLoss) {
  uint32_t seed = TestSeed(1);
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int k = 0; k < 600; ++k) {
    const ScheduleInfo& info = AllSchedules()[k % AllSchedules().size()];
    ScheduleShape shape = RandomShape(random, info);
    SCOPED_TRACE(std::string(info.name) + ": " + Describe(shape));
    ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms(info.name, shape));
    ASSERT_OK_AND_ASSIGN(ScheduleTable table, info.build(shape));
    ASSERT_OK_AND_ASSIGN(table, LowerTable(table));
    ASSERT_EQ(programs.size(), table.programs.size());
    ASSERT_OK(ValidateTable(table, {.channel_slots = programs[0].channel_slots, .memory = {}}));
    for (size_t w = 0; w < programs.size(); ++w) {
      ASSERT_EQ(Unroll(programs[w]), table.programs[w]);
      ASSERT_EQ(programs[w].instruction_count(), std::ssize(table.programs[w]));
      ASSERT_OK(ValidateProgram(programs[w]));
      if (shape.warmup.empty() && info.name == "pipedream" && shape.edges.empty()) {
        ASSERT_EQ(programs[w].channel_slots, 2);
      }
      ASSERT_OK_AND_ASSIGN(StageProgram rolled,
                           Roll(table, {programs[w].stage, programs[w].replica}));
      rolled.channel_slots = programs[w].channel_slots;
      ASSERT_EQ(rolled, programs[w]);
    }
  }
}

TEST(Schedules, DeepPipelinesGetTheChannelSlotsTheyNeed) {
  ScheduleShape shape = MakeShape({1, 1}, 40);
  shape.warmup = {9, 0};
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms("pipedream", shape));
  // With 2, stage 0 stands at its 6th send when stage 1 stands at its 3rd.
  EXPECT_GT(programs[0].channel_slots, 2);
  EXPECT_THAT(ValidatePrograms(programs, {.channel_slots = 2, .memory = {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("V9")));
  EXPECT_EQ(programs[0].needs[0].slots, 10);
  EXPECT_EQ(programs[0].needs[0].versions, 10);
}

TEST(Schedules, AStageCannotWaitForMoreThanItIsGiven) {
  ScheduleShape shape = MakeShape({1, 1}, 8);
  shape.warmup = {0, 2};  // stage 1 wants three forwards before stage 0 may go on after one
  EXPECT_THAT(MakePrograms("pipedream", shape),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("V9")));
}

}  // namespace
}  // namespace pipedream
