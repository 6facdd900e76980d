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

// One device's share of the work is one unit each for F, I and W; its stages divide it.
absl::StatusOr<Simulation> PlayOn(std::string_view schedule, int devices, int chunks, int m,
                                  double latency_s, std::vector<int> warmup = {}) {
  const ScheduleInfo* info = *FindSchedule(schedule);
  ScheduleShape shape = MakeShape(std::vector<int>(devices * chunks, 1), 1, m);
  if (info->place != nullptr) shape.device_of = info->place(devices, chunks);
  shape.warmup = std::move(warmup);
  SimulateOptions options = Costs(devices * chunks, latency_s);
  for (StageCosts& stage : options.stages) {
    stage.forward_s /= chunks;
    stage.backward_s /= chunks;
    stage.backward_input_s /= chunks;
  }
  return Play(schedule, shape, options);
}

std::vector<int> TwiceTheWarmup(int devices) {
  std::vector<int> warmup;
  for (int s = 0; s < devices; ++s) warmup.push_back(2 * (devices - 1 - s));
  return warmup;
}

// Totals of one step for p = 8, m = 32 over links of pure delay, from the list-scheduling study
// that the project's schedule reference tabulates with one decimal; and the most activations of
// any device.
TEST(Simulate, DelayOnLinksCostsWhatTheTableSays) {
  struct Row {
    const char* schedule;
    int chunks;
    bool deep;
    std::vector<double> makespans;
    double peak;
  };
  const std::vector<Row> table = {
      {"1f1b", 1, false, {117, 134, 151, 185}, 8},
      {"1f1b", 1, true, {117, 120.5, 124, 131}, 15},
      {"interleaved", 2, false, {106.5, 114, 121.5, 155.5}, 11.5},
      {"interleaved", 4, false, {101.25, 116.75, 153.75, 234.75}, 9.75},
      {"zb_h1", 1, false, {103, 110, 117, 151}, 8},
      {"zb_h2", 1, false, {103, 104.75, 106.5, 110}, 15},
      {"zb_v", 2, false, {99.5, 107.75, 116.5, 137.5}, 8},
  };
  const double delays[] = {0, .25, .5, 1};
  for (const Row& row : table) {
    for (int k = 0; k < 4; ++k) {
      SCOPED_TRACE(
          fmt::format("{} x{} deep {} delay {}", row.schedule, row.chunks, row.deep, delays[k]));
      ASSERT_OK_AND_ASSIGN(Simulation run,
                           PlayOn(row.schedule, 8, row.chunks, 32, delays[k],
                                  row.deep ? TwiceTheWarmup(8) : std::vector<int>{}));
      EXPECT_DOUBLE_EQ(run.makespan_s, row.makespans[k]);
      int peak = 0;
      for (const WorkerUse& use : run.workers) peak = std::max(peak, use.peak_in_flight);
      EXPECT_DOUBLE_EQ(1.0 * peak / row.chunks, row.peak);
    }
  }
}

// Bubbles by formula, with tF = tI = tW = 1 per device: interleaved (p-1)(tF+tB)/v, ZB-H1 and, with
// a barrier at the update, ZB-H2 (p-1)(tF+tI-tW), of at least 2p-1 microbatches.
TEST(Simulate, BubblesAreAsTheFormulasSay) {
  for (int p : {2, 3, 4, 8}) {
    for (int m : {2 * p, 4 * p, 6 * p}) {
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      for (int chunks : {1, 2, 4}) {
        ASSERT_OK_AND_ASSIGN(Simulation run, PlayOn("interleaved", p, chunks, m, 0));
        EXPECT_DOUBLE_EQ(run.makespan_s, 3 * m + 3.0 * (p - 1) / chunks);
        // p + (p - 1) / v activations of a device, for chunks to be counted.
        if (chunks > 1) {
          EXPECT_EQ(run.workers[0].peak_in_flight, p * chunks + p - 1);
        }
        EXPECT_EQ(run.workers[0].stages.size(), static_cast<size_t>(chunks));
      }
      ASSERT_OK_AND_ASSIGN(Simulation h1, PlayOn("zb_h1", p, 1, m, 0));
      EXPECT_DOUBLE_EQ(h1.makespan_s, 3 * m + p - 1);
      ASSERT_OK_AND_ASSIGN(Simulation h2, PlayOn("zb_h2", p, 1, m, 0));
      EXPECT_DOUBLE_EQ(h2.makespan_s, 3 * m + p - 1);
      ASSERT_OK_AND_ASSIGN(Simulation v, PlayOn("zb_v", p, 2, m, 0));
      for (int d = 0; d < p; ++d) {
        EXPECT_EQ(h1.workers[d].peak_in_flight, p);
        EXPECT_EQ(h2.workers[d].peak_in_flight, 2 * p - 1);
        EXPECT_EQ(v.workers[d].peak_in_flight, 2 * p);  // chunks: p activations of a device
      }
    }
  }
}

// From a device's first instruction to its last, ZB-H2 and ZB-V leave no hole: they differ only in
// when the devices begin.
TEST(Simulate, ZeroBubbleSchedulesFillTheSpanOfEachWorker) {
  for (int p : {2, 4, 8}) {
    for (const auto& [schedule, chunks] : {std::pair("zb_h2", 1), std::pair("zb_v", 2)}) {
      SCOPED_TRACE(fmt::format("{} p {}", schedule, p));
      const ScheduleInfo* info = *FindSchedule(schedule);
      ScheduleShape shape = MakeShape(std::vector<int>(p * chunks, 1), 1, 4 * p);
      if (info->place != nullptr) shape.device_of = info->place(p, chunks);
      SimulateOptions options = Costs(p * chunks);
      options.record_spans = true;
      ASSERT_OK_AND_ASSIGN(Simulation run, Play(schedule, shape, options));
      for (const WorkerUse& use : run.workers) {
        double first = run.makespan_s, last = 0;
        for (const Span& span : run.spans) {
          if (span.worker != use.worker) continue;
          first = std::min(first, span.start_s);
          last = std::max(last, span.end_s);
        }
        EXPECT_DOUBLE_EQ(last - first, use.busy_s);
        EXPECT_DOUBLE_EQ(first, use.worker.stage.value());
      }
    }
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

// Copies, activations and staleness of the asynchronous schedules, stage by stage, as their
// definitions have them; none has a bubble.
TEST(Simulate, AsynchronousSchedulesHoldWhatTheirDefinitionsSay) {
  for (int p : {1, 2, 4, 8}) {
    const int m = p + 2;
    SCOPED_TRACE(p);
    auto play = [&](std::string_view schedule, int microbatches) {
      return Play(schedule, MakeShape(std::vector<int>(p, 1), 120 / microbatches * 2, microbatches),
                  Costs(p));
    };
    ASSERT_OK_AND_ASSIGN(Simulation stash, play("pipedream", 1));
    ASSERT_OK_AND_ASSIGN(Simulation vsync, play("pipedream_vsync", 1));
    ASSERT_OK_AND_ASSIGN(Simulation twobw, play("2bw", m));
    ASSERT_OK_AND_ASSIGN(Simulation paci, play("paci", 2));
    for (const Simulation* run : {&stash, &vsync, &twobw, &paci}) {
      EXPECT_NEAR(run->steady_s_per_microbatch, kForward + kBackward, 1e-9);
      for (const WorkerUse& use : run->workers) {
        EXPECT_EQ(use.peak_in_flight, p - use.worker.stage.value());
      }
    }
    for (int s = 0; s < p; ++s) {
      const int behind = p - 1 - s;
      EXPECT_EQ(stash.workers[s].stages[0].peak_versions, behind + 1);
      EXPECT_EQ(stash.workers[s].stages[0].staleness, behind);
      EXPECT_EQ(vsync.workers[s].stages[0].peak_versions, p);
      EXPECT_EQ(vsync.workers[s].stages[0].staleness, p - 1);
      EXPECT_EQ(twobw.workers[s].stages[0].peak_versions, 2);
      EXPECT_EQ(twobw.workers[s].stages[0].staleness, 1);
      EXPECT_EQ(paci.workers[s].stages[0].peak_versions, 1);
      EXPECT_EQ(paci.workers[s].stages[0].staleness, (behind + 1) / 2);  // ceil(behind / 2)
    }
  }
}

// The same study, asynchronous, p = 8, t = 3: time per microbatch (two decimals in the table) and
// microbatches in flight, for three rules of depth: none for the links; by Little's law
// ceil(2 C / t) more for the time C of all links behind; for every link behind 1 + ceil(2 c / t).
TEST(Simulate, DepthHidesSlowLinks) {
  struct Cell {
    double pace;
    int in_flight;
  };
  struct Case {
    const char* name;
    std::vector<double> links;
    Cell none, little, per_link;
  };
  const std::vector<Case> cases = {
      {"one slow link", {0, 0, 0, 1, 0, 0, 0}, {4.00, 8}, {3.00, 9}, {3.00, 9}},
      {"two nodes", {0, 0, 0, .5, 0, 0, 0}, {3.50, 8}, {3.00, 9}, {3.00, 9}},
      {"all .5", std::vector<double>(7, .5), {3.875, 8}, {3.67, 11}, {3.00, 15}},
      {"all 1", std::vector<double>(7, 1), {4.75, 8}, {4.00, 13}, {3.00, 15}},
      {"all 2", std::vector<double>(7, 2), {6.50, 8}, {3.40, 18}, {3.00, 22}},
      {"mixed", {.1, .1, .1, 1.5, .1, .1, .1}, {4.50, 8}, {3.15, 10}, {3.00, 15}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<int> none(8, 0), little(8, 0), per_link(8, 0);
    double behind = 0;
    for (int s = 6; s >= 0; --s) {
      behind += c.links[s];
      none[s] = none[s + 1] + 1;
      little[s] = 7 - s + static_cast<int>(std::ceil(2 * behind / 3));
      per_link[s] = per_link[s + 1] + 1 + static_cast<int>(std::ceil(2 * c.links[s] / 3));
    }
    SimulateOptions options = Costs(8);
    for (size_t k = 0; k < c.links.size(); ++k) options.links[k].latency_s = c.links[k];
    for (const auto& [warmup, expected] :
         {std::pair(none, c.none), std::pair(little, c.little), std::pair(per_link, c.per_link)}) {
      // Thirds of the run are whole numbers of patterns, which repeat after so many, or after few.
      ScheduleShape shape = MakeShape(std::vector<int>(8, 1), 3 * 60 * (warmup[0] + 1));
      shape.warmup = warmup;
      ASSERT_OK_AND_ASSIGN(Simulation run, Play("pipedream", shape, options));
      EXPECT_NEAR(run.steady_s_per_microbatch, expected.pace, 0.005);
      EXPECT_EQ(run.workers[0].peak_in_flight, expected.in_flight);
    }
  }
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

// By hand: a forward takes 1 s, packing what it sends 0.5 s of the sender and 0.25 s on the way, a
// backward 2 s and packing its gradient 0.75 s of stage 1. With two microbatches stage 1 computes
// F0 1.75-2.75, F1 3.25-4.25, then backwards and packing alternate: B0 to 6.25, packed 7, B1 to 9,
// packed 9.75; the last gradient comes at 10, its backward ends at 12.
TEST(Simulate, PackingKeepsTheSenderBusy) {
  SimulateOptions options = Costs(2, 0.25);
  options.links[0].activation_pack_s = 0.5;
  options.links[0].gradient_pack_s = 0.75;
  options.record_spans = true;
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("gpipe", MakeShape({1, 1}, 1, 2), options));
  EXPECT_DOUBLE_EQ(run.makespan_s, 12);
  EXPECT_DOUBLE_EQ(run.workers[0].busy_s, 2 * (1 + 0.5 + 2));
  EXPECT_DOUBLE_EQ(run.workers[1].busy_s, 2 * (1 + 2 + 0.75));
  std::vector<double> ends;
  for (const Span& span : run.spans) {
    if (!IsSend(span.instruction.op) && span.worker.stage.value() == 1) ends.push_back(span.end_s);
  }
  EXPECT_EQ(ends, (std::vector<double>{2.75, 4.25, 6.25, 9}));
}

// Two stages of one device: no link, but the message is packed all the same.
TEST(Simulate, MessagesInsideAWorkerCostTheirPackingOnly) {
  ScheduleShape shape = MakeShape({1, 1}, 1, 2);
  shape.device_of = {0, 0};
  SimulateOptions options = Costs(2, 100);
  options.links[0].activation_pack_s = 0.5;
  ASSERT_OK_AND_ASSIGN(Simulation run, Play("interleaved", shape, options));
  EXPECT_DOUBLE_EQ(run.makespan_s, 2 * (2 * (kForward + kBackward) + 0.5));
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

// ZB-H2 leaves no hole in any worker's span, 24 units for 8 microbatches; but the spans are shifted
// against each other by a unit per stage. Waiting for the whole norm makes every minibatch as long
// as from the first worker's start to the last one's end; updates that are validated later do not.
TEST(Simulate, LateValidationHidesTheNormsBarrier) {
  ScheduleShape shape = MakeShape({1, 1, 1, 1}, 5, 8);
  shape.global_norm = true;
  SimulateOptions unit = Costs(4);
  for (StageCosts& stage : unit.stages) stage.backward_s = 2;
  ASSERT_OK_AND_ASSIGN(Simulation late, Play("zb_h2", shape, unit));
  EXPECT_DOUBLE_EQ(late.makespan_s, 5 * 24 + 3);
  ASSERT_OK_AND_ASSIGN(ScheduleTable waiting, (*FindSchedule("zb_h2"))->build(shape));
  waiting.policy = WeightPolicy::kFlush;
  for (auto& program : waiting.programs) {
    std::erase_if(program, [](const Instruction& i) { return i.op == Op::kValidate; });
  }
  ASSERT_OK_AND_ASSIGN(waiting, LowerTable(waiting));
  ASSERT_OK_AND_ASSIGN(Simulation waited, Simulate(waiting, unit));
  EXPECT_DOUBLE_EQ(waited.makespan_s, 5 * 27);
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
