// Plans for all kinds of schedules. Times are those that docs/schedules.md lists; memory is counted
// by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "common/schedule/repeat_table.h"
#include "common/planner/planner.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// `count` nodes that take `third` seconds forward, and for each gradient.
PlanRequest Chain(int count, double third, int workers) {
  PlanRequest request;
  request.profiles.resize(1);
  request.profiles[0].device_kind = "cpu";
  for (int n = 0; n < count; ++n) {
    NodeProfile node;
    node.name = fmt::format("n{}", n);
    node.op = "Conv";
    node.forward_s = node.input_gradient_s = node.weight_gradient_s = third;
    node.parameter_bytes = 100;
    node.saved_bytes = 1000;
    request.profiles[0].nodes.push_back(node);
    if (n + 1 < count) request.profiles[0].tensors.push_back({{n}, {n + 1}, 0, false, {}, 0});
    if (n + 1 < count) request.profiles[0].tensors.push_back({{n}, {n + 1}, 0, true, {}, 0});
  }
  for (int w = 0; w < workers; ++w)
    request.topology.devices.push_back({fmt::format("w{}", w), "cpu", 0, "host"});
  if (workers > 1) request.topology.links.push_back({0, 1, 1e12, 0, "tcp"});
  request.microbatches = 8;
  return request;
}

struct Timed {
  const char* schedule;
  int chunks;
  double step_s;       // docs/schedules.md: 4 devices, 8 microbatches, link 0
  int slots_of_first;  // activations of stage 0, in microbatches
};
void PrintTo(const Timed& timed, std::ostream* out) { *out << timed.schedule; }

class PlayedSchedules : public testing::TestWithParam<Timed> {};

TEST_P(PlayedSchedules, TakeWhatTheirTableTakes) {
  const Timed& want = GetParam();
  const int stages = 4 * std::max(want.chunks, 1);
  PlanRequest request = Chain(stages, 4.0 / stages, 4);
  request.schedule = want.schedule;
  request.chunks = want.chunks;
  request.stages = stages;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_NEAR(plan.step_s, want.step_s, 1e-6);
  EXPECT_NEAR(plan.bubble, 1 - 24 / want.step_s, 1e-6);
  EXPECT_EQ(plan.rule, "measured");
  EXPECT_EQ(plan.stages.size(), static_cast<size_t>(stages));
  EXPECT_EQ(plan.devices(), 4);
  EXPECT_EQ(plan.workers(), 4);
  EXPECT_TRUE(plan.warmup().empty()) << "is left to the schedule";
  for (const PlanStage& stage : plan.stages) {
    EXPECT_EQ(stage.versions, 1);
    EXPECT_EQ(stage.memory.weights, 100);
    EXPECT_EQ(stage.memory.gradients, 200) << "the sum and one microbatch's";
  }
  EXPECT_EQ(plan.stages[0].memory.activations, 1000 * want.slots_of_first);
}

INSTANTIATE_TEST_SUITE_P(
    Four, PlayedSchedules,
    testing::Values(Timed{"zb_h1", 0, 27, 4}, Timed{"zb_h2", 0, 27, 7},
                    Timed{"sequential", 0, 96, 1}, Timed{"interleaved", 2, 28.5, 8},
                    Timed{"interleaved", 4, 26.25, 8}, Timed{"zb_v", 2, 25.5, 8}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.schedule, info.param.chunks); });

TEST(PlannerSchedulesTest, StagesOfADeviceAreOnOneWorker) {
  PlanRequest request = Chain(8, 0.5, 2);
  request.schedule = "zb_v";
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "1-1-1-1 on 2 devices");
  EXPECT_THAT(plan.device_of, ElementsAre(0, 1, 1, 0));
  const std::vector<std::string> first = {"w0"}, second = {"w1"};
  EXPECT_EQ(plan.stages[0].workers, first);
  EXPECT_EQ(plan.stages[1].workers, second);
  EXPECT_EQ(plan.stages[2].workers, second);
  EXPECT_EQ(plan.stages[3].workers, first);
  // Never slower than the even division.
  Plan even = plan;
  for (int s = 0; s < 4; ++s) even.stages[s].nodes = {2 * s, 2 * s + 1};
  ASSERT_OK_AND_ASSIGN(even, EvaluatePlan(request, even));
  EXPECT_LE(plan.step_s, even.step_s);
}

TEST(PlannerSchedulesTest, MemoryOfAWorkerIsThatOfAllItsStages) {
  PlanRequest request = Chain(8, 0.5, 2);
  request.schedule = "interleaved";
  request.chunks = 2;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  int64_t first = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (plan.device_of[s] == 0) first += plan.stages[s].memory.total();
  for (DeviceInfo& device : request.topology.devices) device.memory_bytes = first;
  EXPECT_OK(MakePlan(request));
  for (DeviceInfo& device : request.topology.devices) device.memory_bytes = first / 4;
  EXPECT_THAT(MakePlan(request).status(),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("device 0 needs")));
}

TEST(PlannerSchedulesTest, AsynchronousSchedulesTakeTheBottleneckOfEveryMicrobatch) {
  struct Case {
    const char* schedule;
    int microbatches;
    std::vector<int> versions;
    int64_t gradients;  // of stage 0
  };
  for (const Case& c : std::vector<Case>{{"2bw", 8, {2, 2, 2, 2}, 200},
                                         {"paci", 8, {1, 1, 1, 1}, 200},
                                         {"pipedream_vsync", 1, {4, 4, 4, 4}, 100}}) {
    SCOPED_TRACE(c.schedule);
    PlanRequest request = Chain(4, 1, 4);
    request.schedule = c.schedule;
    request.microbatches = c.microbatches;
    request.max_replicas = 1;
    ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
    EXPECT_EQ(plan.config(), "1-1-1-1");
    EXPECT_EQ(plan.rule, "measured");
    EXPECT_DOUBLE_EQ(plan.step_s, 3.0 * c.microbatches);
    EXPECT_DOUBLE_EQ(plan.bubble, 0);
    for (int s = 0; s < 4; ++s) {
      EXPECT_EQ(plan.stages[s].versions, c.versions[s]) << s;
      EXPECT_EQ(plan.stages[s].memory.weights, 100 * c.versions[s]) << s;
      EXPECT_EQ(plan.stages[s].memory.activations, 1000 * (4 - s)) << s;
      EXPECT_EQ(plan.stages[s].warmup, 3 - s) << s;
    }
    EXPECT_EQ(plan.stages[0].memory.gradients, c.gradients);
  }
}

TEST(PlannerSchedulesTest, UpdatesThatWaitForANormNeedASecondSum) {
  PlanRequest request = Chain(4, 1, 4);
  request.schedule = "2bw";
  request.max_replicas = 1;
  request.stages = 4;
  request.global_norm = true;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.stages[0].memory.gradients, 200);
  EXPECT_EQ(plan.stages[3].memory.gradients, 300);
}

TEST(PlannerSchedulesTest, UpdatesThatMayBeTakenBackNeedWhatWasBefore) {
  PlanRequest request = Chain(4, 1, 4);
  request.profiles[0].optimizer_state_tensors = 2;
  request.profiles[0].nodes[0].state_bytes = 7;
  request.schedule = "zb_h1";
  request.stages = 4;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.stages[0].memory.weights, 100 + 7);
  EXPECT_EQ(plan.stages[0].memory.optimizer, 200);
  request.global_norm = true;
  ASSERT_OK_AND_ASSIGN(plan, MakePlan(request));
  EXPECT_EQ(plan.stages[0].versions, 2);
  EXPECT_EQ(plan.stages[0].memory.weights, 200 + 7);
  EXPECT_EQ(plan.stages[0].memory.optimizer, 400 + 7);
}

TEST(PlannerSchedulesTest, DataParallelUsesAllWorkersThatGetAMicrobatch) {
  PlanRequest request = Chain(4, 1, 4);
  request.topology.links[0].bandwidth_bytes_per_s = 1;  // however long reducing takes
  request.schedule = "data_parallel";
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "4");
  // Two microbatches of 12 s on each; 2 * 3/4 * 400 bytes at 1 byte per second.
  EXPECT_NEAR(plan.step_s, 24 + 600, 1e-6);
  request.microbatches = 3;
  ASSERT_OK_AND_ASSIGN(plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "3");
}

TEST(PlannerSchedulesTest, ReplicasOfOtherSchedulesAreSearched) {
  PlanRequest request = Chain(2, 1, 3);
  request.profiles[0].nodes[0].parameter_bytes = 1;
  request.profiles[0].nodes[0].forward_s = 4;  // twice the other's time
  request.schedule = "zb_h1";
  request.stages = 2;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "2-1");
}

constexpr char kTable[] =
    "schedule mine policy=flush replicas=2,1,1 devices=1,0,0 microbatches=4\n"
    "s1.r0: F0 F0c1 B0c1 B0 F1 F1c1 B1c1 B1 F2 F2c1 B2c1 B2 F3 F3c1 B3c1 B3\n"
    "s0.r0: F0 F2 B0 B2\n"
    "s0.r1: F1 F3 B1 B3\n";

PlanRequest WithTable(int workers) {
  PlanRequest request = Chain(8, 1, workers);
  auto table = ParseScheduleFile(kTable);
  EXPECT_OK(table);
  request.schedule = table->name;
  request.table = std::make_shared<const ScheduleTable>(*std::move(table));
  request.microbatches = 4;
  return request;
}

TEST(PlannerSchedulesTest, ATableSaysStagesReplicasAndDevices) {
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(WithTable(4)));
  EXPECT_EQ(plan.schedule, "mine");
  EXPECT_EQ(plan.config(), "2-1-1 on 2 devices");
  EXPECT_THAT(plan.device_of, ElementsAre(1, 0, 0));
  const std::vector<std::string> first = {"w0"}, second = {"w1", "w2"};
  EXPECT_EQ(plan.stages[0].workers, second);
  EXPECT_EQ(plan.stages[1].workers, first);
  EXPECT_EQ(plan.stages[2].workers, first);
  EXPECT_EQ(plan.workers(), 3);
  EXPECT_TRUE(plan.alternatives.empty());
  // Two replicas halve the time of stage 0. No other division is faster.
  Plan other = plan;
  other.stages[0].nodes = {0, 1, 2, 3};
  other.stages[1].nodes = {4, 5};
  other.stages[2].nodes = {6, 7};
  ASSERT_OK_AND_ASSIGN(other, EvaluatePlan(WithTable(4), other));
  EXPECT_LE(plan.step_s, other.step_s);
}

TEST(PlannerSchedulesTest, CutsPartReadersOfAParameterOnlyIfThereIsNoOtherPlan) {
  PlanRequest request = Chain(4, 1, 4);
  request.profiles[0].ties = {{1, 2}};
  for (const char* schedule : {"1f1b", "2bw", "zb_h1"}) {
    SCOPED_TRACE(schedule);
    request.schedule = schedule;
    request.max_replicas = 1;
    request.stages = 0;
    ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
    EXPECT_LE(plan.stages.size(), 3u);
    EXPECT_EQ(plan.stage_of()[1], plan.stage_of()[2]);
    request.stages = 4;
    ASSERT_OK_AND_ASSIGN(plan, MakePlan(request));
    EXPECT_EQ(plan.config(), "1-1-1-1");
    EXPECT_THAT(plan.warnings.back(),
                HasSubstr("the readers of a parameter are parted before stage 2"));
  }
  request.microbatches = 1;
  for (const char* schedule : {"pipedream", "pipedream_vsync", "paci"}) {
    request.schedule = schedule;
    EXPECT_THAT(MakePlan(request).status(),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("more would part the readers of a parameter")));
  }
}

TEST(PlannerSchedulesTest, RecomputationTradesTimeForMemory) {
  PlanRequest request = Chain(4, 1, 2);
  for (NodeProfile& node : request.profiles[0].nodes) {
    node.output_bytes = 10;
  }
  for (ProfileTensor& tensor : request.profiles[0].tensors) tensor.bytes = 10;
  request.schedule = "1f1b";
  request.stages = 2;
  request.recompute = true;
  ASSERT_OK_AND_ASSIGN(Plan stage, MakePlan(request));
  ASSERT_THAT(stage.stage_of(), ElementsAre(0, 0, 1, 1));
  EXPECT_DOUBLE_EQ(stage.stages[0].compute_s, 8);  // 6 and the forward pass again
  EXPECT_EQ(stage.stages[0].memory.activations, 0);
  EXPECT_EQ(stage.stages[1].memory.activations, 10) << "what enters the stage";
  EXPECT_EQ(stage.stages[1].memory.workspace, 2000);
  request.checkpoints = {2};
  ASSERT_OK_AND_ASSIGN(Plan kept, MakePlan(request));
  EXPECT_DOUBLE_EQ(kept.stages[1].compute_s, 7);
  EXPECT_EQ(kept.stages[1].memory.activations, 1010);
}

TEST(PlannerSchedulesTest, RefusesBadRequestsNamingTheField) {
  struct Case {
    std::function<void(PlanRequest*)> spoil;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](PlanRequest* r) {
         r->schedule = "zb_h1";
         r->chunks = 2;
       },
       "chunks: 2, but schedule 'zb_h1' has one stage per device"},
      {[](PlanRequest* r) {
         r->schedule = "zb_v";
         r->stages = 3;
       },
       "stages: 3, but schedule 'zb_v' has 2 on each device"},
      {[](PlanRequest* r) {
         r->schedule = "interleaved";
         r->chunks = 2;
         r->stages = 6;
       },
       "stages: 6 stages, 2 on each device, need 3 workers, 2 may be used"},
      {[](PlanRequest* r) {
         r->schedule = "data_parallel";
         r->stages = 2;
       },
       "stages: 2, but schedule 'data_parallel' has one"},
      {[](PlanRequest* r) {
         r->schedule = "2bw";
         r->stages = 2;
         r->warmup = {9, 0};
       },
       "warmup: 9 at stage 0"},
      {[](PlanRequest* r) {
         r->schedule = "pipedream_vsync";
         r->microbatches = 1;
         r->stages = 2;
         r->warmup = {0, 3};
       },
       "warmup: stage 1 runs 3 microbatches ahead"},
      {[](PlanRequest* r) { *r = WithTable(2); },
       "workers: the table of schedule 'mine' needs 3, 2 may be used"},
      {[](PlanRequest* r) {
         *r = WithTable(3);
         r->microbatches = 2;
       },
       "microbatches: 2, but the table of schedule 'mine' has 4"},
      {[](PlanRequest* r) {
         *r = WithTable(3);
         r->profiles = Chain(2, 1, 1).profiles;
       },
       "stages: 3 stages asked for, but the model can be cut into at most 2"},
  };
  for (const Case& c : cases) {
    PlanRequest request = Chain(8, 1, 2);
    c.spoil(&request);
    EXPECT_THAT(MakePlan(request).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.message;
  }
}

}  // namespace
}  // namespace pipedream
