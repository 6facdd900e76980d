#include "common/schedule/schedule_table.h"

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

TEST(ScheduleTable, WarmupFollowsTheWorkersBehind) {
  // floor((workers in stages >= s, less 1) / r_s); with one replica each that is p - 1 - s.
  auto depths = [](const ScheduleShape& shape) {
    std::vector<int> result;
    for (int s = 0; s < shape.stages(); ++s) result.push_back(WarmupDepth(shape, StageId(s)));
    return result;
  };
  EXPECT_EQ(depths(MakeShape({1, 1, 1, 1}, 8)), (std::vector{3, 2, 1, 0}));
  EXPECT_EQ(depths(MakeShape({2, 1}, 8)), (std::vector{1, 0}));
  EXPECT_EQ(depths(MakeShape({1, 2}, 8)), (std::vector{2, 0}));
  EXPECT_EQ(depths(MakeShape({3, 2, 1}, 8)), (std::vector{1, 1, 0}));
  ScheduleShape deeper = MakeShape({1, 1}, 8);
  deeper.warmup = {3, 0};
  EXPECT_EQ(depths(deeper), (std::vector{3, 0}));
}

TEST(ScheduleTable, EvaluationReadsTheWeightsAfterTheEpoch) {
  ScheduleShape shape = MakeShape({2, 1}, 5, 3, 2, 1);  // 5 minibatches of 3, twice
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kFlush, StageId(0), 0), WeightVersion(5));
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kFlush, StageId(1), 1), WeightVersion(10));
  shape = MakeShape({2, 1}, 5, 1, 3, 1);
  // 5 of 15 microbatches done: rounds of two, the third is open.
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kStash, StageId(0), 0), WeightVersion(2));
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kStash, StageId(1), 0), WeightVersion(5));
  // At the end the partial round has been applied too.
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kStash, StageId(0), 2), WeightVersion(8));
  EXPECT_EQ(EvaluationVersion(shape, WeightPolicy::kStash, StageId(1), 2), WeightVersion(15));
}

TEST(ScheduleTable, ShapeErrorsNameTheField) {
  auto expect = [](const ScheduleShape& shape, std::string_view message) {
    EXPECT_THAT(Validate(shape),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))));
  };
  expect(MakeShape({}, 1), "replicas");
  expect(MakeShape({1, 0}, 1), "replicas: stage 1 has 0");
  expect(MakeShape({1}, 0), "minibatches_per_epoch: 0");
  expect(MakeShape({1}, 1, 0), "microbatches_per_minibatch: 0");
  expect(MakeShape({1}, 1, 1, 0), "epochs: 0");
  expect(MakeShape({1}, 1, 1, 1, -1), "evaluation_microbatches: -1");
  expect(MakeShape({1}, int64_t{1} << 62, 1, 4), "at most");
  ScheduleShape shape = MakeShape({1, 1}, 1);
  shape.warmup = {1};
  expect(shape, "warmup: 1 numbers for 2 stages");
  shape.warmup = {1, -1};
  expect(shape, "warmup: -1");
}

TEST(ScheduleTable, ParseInvertsFormat) {
  uint32_t seed = TestSeed(11);
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int k = 0; k < 60; ++k) {
    const ScheduleInfo& info = AllSchedules()[k % AllSchedules().size()];
    ScheduleShape shape = RandomShape(random, info);
    ASSERT_OK_AND_ASSIGN(ScheduleTable table, info.build(shape));
    ASSERT_OK_AND_ASSIGN(ScheduleTable parsed, ParseTable(FormatTable(table)));
    EXPECT_EQ(parsed, table);
    ASSERT_OK_AND_ASSIGN(table, LowerTable(table));
    ASSERT_OK_AND_ASSIGN(parsed, ParseTable(FormatTable(table)));
    EXPECT_EQ(parsed, table) << Describe(shape);
  }
}

TEST(ScheduleTable, ParseNamesLineAndColumn) {
  const std::string header = "schedule x policy=stash replicas=1,1\n";
  auto expect = [](const std::string& text, std::string_view message) {
    EXPECT_THAT(ParseTable(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))))
        << text;
  };
  expect("", "line 0 column 1");
  expect("table", "line 1 column 1: expected 'schedule NAME");
  expect("schedule", "line 1 column 9: expected the schedule's name");
  expect("schedule x policy=none", "line 1 column 12: 'policy=none'");
  expect("schedule x replicas=1,", "line 1 column 12");
  expect("schedule x colour=red", "line 1 column 12");
  expect("schedule x epochs=2", "replicas: expected at least one stage");
  expect(header, "line 1 column 1: expected the line of 's0.r0:'");
  expect(header + "s0.r1:", "line 2 column 1: expected 's0.r0:'");
  expect(header + "s0.r0: F0 Z1\ns1.r0:\n", "line 2 column 11: instruction 'Z1'");
  expect(header + "s0.r0:\ns1.r0:\n\ns2.r0:", "line 5 column 1: expected the end");
}

}  // namespace
}  // namespace pipedream
