#include "common/schedule/simulate.h"

#include <cmath>

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

constexpr double kForward = 1, kBackward = 2;

SimulateOptions Costs(int stages, double latency_s = 0) {
  SimulateOptions options;
  options.stages.assign(stages, {.forward_s = kForward,
                                 .backward_s = kBackward,
                                 .backward_input_s = 1,
                                 .step_s = 0,
                                 .reduce_s = 0,
                                 .norm_s = 0,
                                 .evaluate_s = 1});
  LinkCosts link;
  link.latency_s = latency_s;
  options.links.assign(stages - 1, link);
  return options;
}

absl::StatusOr<Simulation> Play(std::string_view schedule, const ScheduleShape& shape,
                                const SimulateOptions& options) {
  return Simulate(*LowerTable(*(*FindSchedule(schedule))->build(shape)), options);
}

// Bubble of a flush: (p-1)(tF + tB), whatever m is, for both schedules.
TEST(Simulate, FlushSchedulesHaveTheKnownBubble) {
  for (std::string_view schedule : {"1f1b", "gpipe"}) {
    for (int p : {1, 2, 4, 8}) {
      for (int m : {1, 3, 8, 32}) {
        ASSERT_OK_AND_ASSIGN(Simulation run,
                             Play(schedule, MakeShape(std::vector<int>(p, 1), 3, m), Costs(p)));
        double ideal = m * (kForward + kBackward), bubble = (p - 1) * (kForward + kBackward);
        EXPECT_DOUBLE_EQ(run.makespan_s, 3 * (ideal + bubble)) << schedule << p << m;
        EXPECT_NEAR(run.bubble, bubble / (ideal + bubble), 1e-12);
        EXPECT_NEAR(run.steady_s_per_microbatch, (ideal + bubble) / m, 1e-9);
        for (const WorkerUse& use : run.workers) {
          EXPECT_DOUBLE_EQ(use.busy_s, 3 * ideal);
          int depth = p - use.worker.stage.value();
          EXPECT_EQ(use.peak_in_flight, schedule == "gpipe" ? m : std::min(m, depth));
          EXPECT_EQ(use.stages[0].peak_versions, 1);
        }
      }
    }
  }
}

// Totals of one step for p = 8, m = 32 over links of pure delay, from the list-scheduling study
// that the project's schedule reference tabulates.
TEST(Simulate, DelayOnLinksCostsWhatTheTableSays) {
  ScheduleShape shape = MakeShape(std::vector<int>(8, 1), 1, 32);
  ScheduleShape deep = shape;
  for (int s = 0; s < 8; ++s) deep.warmup.push_back(2 * (7 - s));
  const double delays[] = {0, .25, .5, 1};
  const double plain[] = {117, 134, 151, 185}, deeper[] = {117, 120.5, 124, 131};
  for (int k = 0; k < 4; ++k) {
    ASSERT_OK_AND_ASSIGN(Simulation run, Play("1f1b", shape, Costs(8, delays[k])));
    EXPECT_DOUBLE_EQ(run.makespan_s, plain[k]);
    EXPECT_EQ(run.workers[0].peak_in_flight, 8);
    ASSERT_OK_AND_ASSIGN(run, Play("1f1b", deep, Costs(8, delays[k])));
    EXPECT_DOUBLE_EQ(run.makespan_s, deeper[k]);
    EXPECT_EQ(run.workers[0].peak_in_flight, 15);
  }
}

TEST(Simulate, StashingHasNoBubbleInTheSteadyState) {
  for (int p : {1, 2, 4, 8}) {
    ASSERT_OK_AND_ASSIGN(Simulation run,
                         Play("pipedream", MakeShape(std::vector<int>(p, 1), 120), Costs(p)));
    EXPECT_NEAR(run.steady_s_per_microbatch, kForward + kBackward, 1e-9);
    EXPECT_DOUBLE_EQ(run.makespan_s, (120 + p - 1) * (kForward + kBackward));
    for (const WorkerUse& use : run.workers) {
      EXPECT_EQ(use.peak_in_flight, p - use.worker.stage.value());
      EXPECT_EQ(use.stages[0].peak_versions, p - use.worker.stage.value());
    }
  }
}

// The same study, asynchronous: time per microbatch by the rule and with per-link depth.
TEST(Simulate, DepthHidesSlowLinks) {
  ScheduleShape shape = MakeShape(std::vector<int>(8, 1), 600);
  SimulateOptions one_slow = Costs(8);
  one_slow.links[3].latency_s = 1.0;
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("pipedream", shape, one_slow));
  EXPECT_NEAR(run.steady_s_per_microbatch, 4.00, 0.01);
  // d(s) = sum over the links behind of 1 + ceil(2 c / t), with t = 3.
  for (int s = 0; s < 8; ++s) shape.warmup.push_back(7 - s + (s <= 3 ? 1 : 0));
  ASSERT_OK_AND_ASSIGN(run, Play("pipedream", shape, one_slow));
  EXPECT_NEAR(run.steady_s_per_microbatch, 3.00, 0.01);
  EXPECT_EQ(run.workers[0].peak_in_flight, 9);
}

// Stage 0 twice as slow, on two workers: the pipeline keeps the pace of the single last stage.
TEST(Simulate, ReplicasShareTheMicrobatches) {
  SimulateOptions options = Costs(2);
  options.stages[0].forward_s = 2;
  options.stages[0].backward_s = 4;
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("pipedream", MakeShape({2, 1}, 400), options));
  EXPECT_NEAR(run.steady_s_per_microbatch, 3.0, 0.05);
  ASSERT_OK_AND_ASSIGN(run, Play("pipedream", MakeShape({1, 1}, 400), options));
  EXPECT_NEAR(run.steady_s_per_microbatch, 6.0, 0.05);
}

// Activations of 5 s on the wire: the link, not the stages, sets the pace, and no depth helps.
TEST(Simulate, BusyLinkIsTheBottleneck) {
  SimulateOptions options = Costs(2);
  options.links[0].bandwidth_bytes_per_s = 2e6;
  options.links[0].activation_bytes = 1e7;
  options.links[0].gradient_bytes = 1e6;
  ScheduleShape shape = MakeShape({1, 1}, 300);
  shape.warmup = {8, 0};
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("pipedream", shape, options));
  EXPECT_NEAR(run.steady_s_per_microbatch, 5.0, 0.01);
}

// By hand: a forward takes 1 s at stage 0 and 10 s at stage 1, which so receives message k at
// 1 + 10 k. With n slots, message k can be sent once message k - n has been received.
TEST(Simulate, SenderWaitsForAChannelSlot) {
  SimulateOptions options = Costs(2);
  options.stages[1].forward_s = 10;
  options.record_spans = true;
  auto forward_starts = [&](int slots) {
    options.channel_slots = slots;
    absl::StatusOr<Simulation> run = Play("gpipe", MakeShape({1, 1}, 1, 5), options);
    std::vector<double> starts;
    for (const Span& span : run->spans) {
      if (span.instruction.op == Op::kForward && span.worker.stage.value() == 0) {
        starts.push_back(span.start_s);
      }
    }
    return starts;
  };
  EXPECT_EQ(forward_starts(0), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(forward_starts(2), (std::vector<double>{0, 1, 2, 3, 11}));
  EXPECT_EQ(forward_starts(1), (std::vector<double>{0, 1, 2, 11, 21}));
}

TEST(Simulate, CollectivesWaitForTheSlowest) {
  // Replica 1 has one microbatch of three; both end each minibatch together.
  SimulateOptions options = Costs(1);
  options.stages[0].reduce_s = 0.5;
  options.stages[0].step_s = 0.25;
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("gpipe", MakeShape({2}, 1, 3), options));
  EXPECT_DOUBLE_EQ(run.makespan_s, 2 * 3 + 0.75);
  EXPECT_DOUBLE_EQ(run.workers[0].busy_s, 6.75);
  EXPECT_DOUBLE_EQ(run.workers[1].busy_s, 3.75);
}

TEST(Simulate, RolledProgramsGiveTheSame) {
  ScheduleShape shape = MakeShape({2, 1, 1}, 17, 1, 2, 3);
  ASSERT_OK_AND_ASSIGN(Simulation table, Play("pipedream", shape, Costs(3, 0.3)));
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms("pipedream", shape));
  ASSERT_OK_AND_ASSIGN(Simulation rolled, Simulate(programs, Costs(3, 0.3)));
  EXPECT_EQ(rolled.makespan_s, table.makespan_s);
  EXPECT_EQ(rolled.bubble, table.bubble);
}

TEST(Simulate, RefusesCostsThatDoNotFitAndStandstills) {
  ScheduleShape shape = MakeShape({1, 1}, 8);
  EXPECT_THAT(Play("pipedream", shape, Costs(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("3 stages")));
  shape.warmup = {0, 2};
  EXPECT_THAT(Play("pipedream", shape, Costs(2)),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("waits")));
}

}  // namespace
}  // namespace pipedream
