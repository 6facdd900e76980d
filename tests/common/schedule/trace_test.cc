#include "common/schedule/trace.h"

#include <nlohmann/json.hpp>

#include "common/schedule/grid.h"
#include "common/schedule/report.h"
#include "common/schedule/schedules.h"
#include "common/schedule/simulate.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

TEST(Trace, IsTraceEventJson) {
  Peer worker{StageId(1), ReplicaId(2)};
  std::vector<Span> spans = {
      {worker, *ParseInstruction("F3@v1#0"), 0.001, 0.0035},
      {worker, *ParseInstruction("SA3>2.0"), 0.0035, 0.004},
  };
  nlohmann::json trace = nlohmann::json::parse(ChromeTrace(spans));
  std::vector<nlohmann::json> complete;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") complete.push_back(event);
  }
  ASSERT_EQ(complete.size(), 2u);
  EXPECT_EQ(complete[0]["name"], "F3@v1#0");
  EXPECT_EQ(complete[0]["cat"], "forward");
  EXPECT_EQ(complete[0]["pid"], 1);
  EXPECT_DOUBLE_EQ(complete[0]["ts"], 1000);
  EXPECT_DOUBLE_EQ(complete[0]["dur"], 2500);
  EXPECT_EQ(complete[1]["cat"], "transfer");
  EXPECT_NE(complete[0]["tid"], complete[1]["tid"]);
  EXPECT_TRUE(nlohmann::json::parse(ChromeTrace({}))["traceEvents"].empty());
}

// The picture of the design documents: 4 stages, 8 microbatches.
TEST(Grid, DrawsThePipeline) {
  auto draw = [](std::string_view schedule, const ScheduleShape& shape) {
    return DrawGrid(*LowerTable(*(*FindSchedule(schedule))->build(shape)));
  };
  ASSERT_OK_AND_ASSIGN(std::string grid, draw("pipedream", MakeShape({1, 1, 1, 1}, 8)));
  EXPECT_EQ(grid,
            "s0 0123......aa4bb5cc6dd7ee.ff.gg.hh  weight versions alive: 4\n"
            "s1 .012....aa3bb4cc5dd6ee7ff.gg.hh..  weight versions alive: 3\n"
            "s2 ..01..aa2bb3cc4dd5ee6ff7gg.hh....  weight versions alive: 2\n"
            "s3 ...0aa1bb2cc3dd4ee5ff6gg7hh......  weight versions alive: 1\n");
  ASSERT_OK_AND_ASSIGN(grid, draw("gpipe", MakeShape({1, 1}, 1, 2, 1, 1)));
  EXPECT_EQ(grid,
            "s0 01...aabb*.  weight versions alive: 1\n"
            "s1 .01aabb...*  weight versions alive: 1\n");
}

// Two stages, 2 microbatches, one way 0.5: stage 1 gets message k half a unit after its forward.
// Two columns per unit of time.
TEST(Grid, ShowsWhatWaitsForTheLink) {
  ScheduleTable table = *LowerTable(*(*FindSchedule("1f1b"))->build(MakeShape({1, 1}, 1, 2)));
  UnitCosts costs;
  costs.link_latency = 0.5;
  SimulateOptions play = OptionsOf(costs, table.shape);
  play.record_spans = true;
  ASSERT_OK_AND_ASSIGN(Simulation played, Simulate(table, play));
  EXPECT_EQ(DrawGrid(table, played),
            "   0         5\n"
            "s0 0011.....-aaaa.-bbbb\n"
            "s1 ..-00aaaa11bbbb.....\n");
  // Cut into pieces of 20 columns and more only.
  EXPECT_EQ(DrawGrid(table, played, 10), DrawGrid(table, played));
}

// A V over two devices, one microbatch; the turn from stage 1 to stage 2 is on one device.
TEST(Grid, GivesEachStageOfADeviceARow) {
  ScheduleShape shape = MakeShape({1, 1, 1, 1}, 1);
  shape.device_of = {0, 1, 1, 0};
  ScheduleTable table = *LowerTable(*(*FindSchedule("zb_v"))->build(shape));
  UnitCosts costs{.forward = 2, .backward_input = 2, .backward_weight = 2};
  SimulateOptions play = OptionsOf(costs, shape);
  play.record_spans = true;
  ASSERT_OK_AND_ASSIGN(Simulation played, Simulate(table, play));
  EXPECT_EQ(DrawGrid(table, played),
            "      0\n"
            "d0 s0 0..   ..aA\n"
            "   s3  ..0aA..\n"
            "d1 s1 .0 ..  aA.\n"
            "   s2 . 0..aA  .\n");
}

TEST(Grid, CutsLongRunsIntoPieces) {
  ScheduleTable table = *LowerTable(*(*FindSchedule("pipedream"))->build(MakeShape({1}, 9)));
  SimulateOptions play = OptionsOf({}, table.shape);
  play.record_spans = true;
  ASSERT_OK_AND_ASSIGN(Simulation played, Simulate(table, play));
  EXPECT_EQ(DrawGrid(table, played, 23),
            "   0         10\n"
            "s0 0aa1bb2cc3dd4ee5ff6g\n"
            "\n"
            "   20\n"
            "s0 g7hh8ii\n");
}

}  // namespace
}  // namespace pipedream
