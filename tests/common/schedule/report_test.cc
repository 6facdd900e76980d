#include "common/schedule/report.h"

#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

PipelineSpec Pipeline(int devices, int microbatches, int chunks = 0) {
  PipelineSpec pipeline;
  pipeline.devices = devices;
  pipeline.microbatches = microbatches;
  pipeline.chunks = chunks;
  return pipeline;
}

// (p - 1)(tF + tB) of bubble over m (tF + tB).
TEST(Report, OneMinibatchOfASynchronousSchedule) {
  ASSERT_OK_AND_ASSIGN(ScheduleReport report, ReportSchedule("1f1b", Pipeline(4, 8), {}));
  EXPECT_EQ(report.schedule, "1f1b");
  EXPECT_EQ(report.microbatches, 8);
  EXPECT_DOUBLE_EQ(report.makespan, 33);
  EXPECT_DOUBLE_EQ(report.ideal, 24);
  EXPECT_DOUBLE_EQ(report.bubble, 9);
  EXPECT_DOUBLE_EQ(report.idle, 9.0 / 33);
  EXPECT_DOUBLE_EQ(report.per_microbatch, 33.0 / 8);
  EXPECT_DOUBLE_EQ(report.peak_activations, 4);
  EXPECT_EQ(report.weight_copies, 1);
  EXPECT_EQ(report.staleness, 0);
  EXPECT_DOUBLE_EQ(report.messages_per_microbatch, 6);
  ASSERT_EQ(report.workers.size(), 4u);
  EXPECT_DOUBLE_EQ(report.workers[2].peak_activations, 2);
  EXPECT_DOUBLE_EQ(report.workers[2].idle, 9.0 / 33);
}

TEST(Report, AStageOfSeveralOnADeviceIsAPartOfIt) {
  ASSERT_OK_AND_ASSIGN(ScheduleReport report,
                       ReportSchedule("interleaved", Pipeline(8, 32, 4), {}));
  EXPECT_DOUBLE_EQ(report.ideal, 96);
  EXPECT_DOUBLE_EQ(report.bubble, 7 * 3.0 / 4);
  EXPECT_DOUBLE_EQ(report.peak_activations, 8 + 7.0 / 4);
  EXPECT_DOUBLE_EQ(report.messages_per_microbatch, 2 * 31);
  ASSERT_OK_AND_ASSIGN(report, ReportSchedule("zb_v", Pipeline(4, 8), {}));
  EXPECT_EQ(report.chunks, 2);
  // Stages 3 and 4 share a device.
  EXPECT_DOUBLE_EQ(report.messages_per_microbatch, 12);
  for (const DeviceReport& device : report.workers) {
    EXPECT_DOUBLE_EQ(device.peak_activations, 4);
  }
}

// No bubble without link time; with it, the round trip of what stage 0 has in flight sets the pace:
// (p tF + p tB + 2 (p - 1) c) / p.
TEST(Report, AsynchronousSchedulesAreReportedInTheSteadyState) {
  struct Case {
    const char* schedule;
    int copies;
    int64_t staleness;
  };
  for (const Case& c : {Case{"pipedream", 4, 3}, Case{"pipedream_vsync", 4, 3}, Case{"2bw", 2, 1},
                        Case{"paci", 1, 1}}) {
    SCOPED_TRACE(c.schedule);
    for (double link : {0.0, 0.5}) {
      UnitCosts costs;
      costs.link_latency = link;
      ASSERT_OK_AND_ASSIGN(ScheduleReport report,
                           ReportSchedule(c.schedule, Pipeline(4, 10), costs));
      const double pace = (12 + 6 * link) / 4;
      EXPECT_EQ(report.microbatches, 10);
      EXPECT_NEAR(report.per_microbatch, pace, 1e-9);
      EXPECT_NEAR(report.makespan, 10 * pace, 1e-9);
      EXPECT_NEAR(report.ideal, 30, 1e-9);
      EXPECT_NEAR(report.idle, 1 - 3 / pace, 1e-9);
      EXPECT_EQ(report.weight_copies, c.copies);
      EXPECT_EQ(report.staleness, c.staleness);
      EXPECT_DOUBLE_EQ(report.peak_activations, 4);
    }
  }
}

TEST(Report, CostsCount) {
  UnitCosts costs{.forward = 2, .backward_input = 3, .backward_weight = 4, .step = 5};
  ASSERT_OK_AND_ASSIGN(ScheduleReport report, ReportSchedule("gpipe", Pipeline(1, 3), costs));
  EXPECT_DOUBLE_EQ(report.makespan, 3 * 9 + 5);
  EXPECT_DOUBLE_EQ(report.bubble, 0);
  // A boundary of 8 bytes at 2 bytes per unit: 4 units, during which nothing else is sent.
  UnitCosts slow{.link_latency = 1, .link_bandwidth = 2, .boundary_bytes = 8};
  ASSERT_OK_AND_ASSIGN(report, ReportSchedule("sequential", Pipeline(2, 2), slow));
  EXPECT_DOUBLE_EQ(report.makespan, 2 * (2 * 3 + 2 * (4 + 1)));
}

TEST(Report, OfATableAllOfIt) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable table,
                       ParseTable("schedule mine policy=flush replicas=1,1 microbatches=2\n"
                                  "s0.r0: F0 F1 B0 B1 U0\n"
                                  "s1.r0: F0 F1 B0 B1 U0\n"));
  ASSERT_OK_AND_ASSIGN(ScheduleReport report, ReportTable(table, {}));
  EXPECT_EQ(report.schedule, "mine");
  EXPECT_DOUBLE_EQ(report.makespan, 9);
  EXPECT_DOUBLE_EQ(report.bubble, 3);
  EXPECT_DOUBLE_EQ(report.peak_activations, 2);
  std::swap(table.programs[1][0], table.programs[1][2]);
  EXPECT_THAT(ReportTable(table, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("B0 has no forward")));
}

TEST(Report, ShapesFollowTheSchedule) {
  auto shape_of = [](std::string_view schedule, const PipelineSpec& pipeline) {
    return ShapeOf(**FindSchedule(schedule), pipeline);
  };
  PipelineSpec pipeline = Pipeline(2, 6);
  pipeline.minibatches = 3;
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, shape_of("pipedream", pipeline));
  EXPECT_EQ(shape, MakeShape({1, 1}, 18));
  ASSERT_OK_AND_ASSIGN(shape, shape_of("2bw", pipeline));
  EXPECT_EQ(shape, MakeShape({1, 1}, 3, 6));
  pipeline.replicas = {2};
  ASSERT_OK_AND_ASSIGN(shape, shape_of("interleaved", pipeline));
  EXPECT_EQ(shape.replicas, (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(shape.device_of, (std::vector{0, 1, 0, 1}));
  pipeline.replicas = {2, 1};
  ASSERT_OK_AND_ASSIGN(shape, shape_of("1f1b", pipeline));
  EXPECT_EQ(shape.replicas, (std::vector{2, 1}));
}

TEST(Report, ShapeErrorsNameTheField) {
  auto expect = [](std::string_view schedule, const PipelineSpec& pipeline,
                   const std::string& message) {
    EXPECT_THAT(ShapeOf(**FindSchedule(schedule), pipeline),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect("1f1b", Pipeline(0, 4), "stages: 0");
  expect("1f1b", Pipeline(2, 0), "microbatches: 0");
  expect("1f1b", Pipeline(2, 4, 2), "chunks: 2, but schedule '1f1b' takes 1 to 1");
  expect("zb_v", Pipeline(2, 4, 1), "chunks: 1, but schedule 'zb_v' takes 2 to 2");
  PipelineSpec pipeline = Pipeline(2, 4);
  pipeline.replicas = {1, 1, 1};
  expect("1f1b", pipeline, "replicas: 3 numbers for 2 stages");
  pipeline = Pipeline(2, 4);
  pipeline.warmup = {1};
  expect("1f1b", pipeline, "warmup: 1 numbers");
  EXPECT_THAT(ReportSchedule("zigzag", Pipeline(2, 4), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zigzag")));
}

}  // namespace
}  // namespace pipedream
