#include "common/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/common/planner/chain_profile.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

PlanRequest Request(std::vector<ChainNode> nodes, int workers, double bandwidth) {
  return ChainRequest(nodes, workers, bandwidth);
}

const PlanAlternative& Alternative(const Plan& plan, std::string_view name) {
  for (const PlanAlternative& other : plan.alternatives)
    if (other.name == name) return other;
  ADD_FAILURE() << "no alternative " << name;
  static const PlanAlternative none;
  return none;
}

// Four equal nodes of 1 s. Heavy parameters: data parallelism would wait for its all-reduce.
std::vector<ChainNode> FourEqual(int64_t parameters, int64_t cut) {
  return {Node("a", 1, parameters, cut), Node("b", 1, parameters, cut),
          Node("c", 1, parameters, cut), Node("d", 1, parameters, cut)};
}

TEST(PlannerTest, CutsAHeavyChainIntoAStraightPipeline) {
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Request(FourEqual(100, 0), 4, 10)));
  EXPECT_EQ(plan.config(), "1-1-1-1");
  EXPECT_DOUBLE_EQ(plan.step_s, 1);
  EXPECT_DOUBLE_EQ(plan.bottleneck_s, 1);
  EXPECT_EQ(plan.optimality_gap, 0);
  EXPECT_DOUBLE_EQ(plan.bubble, 0);
  EXPECT_EQ(plan.schedule, "pipedream");
  EXPECT_EQ(plan.rule, "measured");
  EXPECT_EQ(plan.warmup(), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(plan.stage_of(), (std::vector<int>{0, 1, 2, 3}));
  const PlanStage& second = plan.stages[1];
  EXPECT_EQ(second.first_node_name, "b");
  EXPECT_EQ(second.workers, std::vector<std::string>{"w1"});
  EXPECT_EQ(second.versions, 3);
  EXPECT_DOUBLE_EQ(second.compute_s, 1);
  // Data parallel: after 4 s each, 2 * 3/4 * 400 B / 10 B/s = 60 s, for four minibatches.
  EXPECT_NEAR(Alternative(plan, "data parallel").step_s, 16, 1e-9);
  EXPECT_DOUBLE_EQ(Alternative(plan, "data parallel").bottleneck_s, 15);
  EXPECT_THAT(Alternative(plan, "data parallel").reason,
              HasSubstr("16 times slower: bound by the all-reduce of stage 0's 400 B"));
  EXPECT_EQ(Alternative(plan, "straight pipeline").reason, "chosen");
  EXPECT_DOUBLE_EQ(Alternative(plan, "one worker").step_s, 4);
  EXPECT_EQ(Alternative(plan, "one worker").config, "1");
}

TEST(PlannerTest, RunsFurtherAheadWhereLinksTakeTime) {
  // A tenth of a second there and back: with the rule's depth each microbatch waits for it.
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Request(FourEqual(100, 1), 4, 10)));
  EXPECT_EQ(plan.config(), "1-1-1-1");
  EXPECT_LT(plan.step_s, 1.02 + 1e-9);
  EXPECT_GT(plan.stages[0].warmup, 3);
  EXPECT_EQ(plan.stages[0].versions, plan.stages[0].warmup + 1);
  EXPECT_EQ(plan.stages[3].warmup, 0);
  EXPECT_DOUBLE_EQ(plan.stages[1].send_s, 0.2);  // (1 + 1) bytes at 10 per second
  EXPECT_EQ(plan.stages[1].sent_bytes, 2);
  EXPECT_EQ(plan.stages[3].send_s, 0);
}

TEST(PlannerTest, ReplicatesALightModel) {
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Request(FourEqual(1, 100), 4, 10)));
  EXPECT_EQ(plan.config(), "4");
  // 4 s each and then the all-reduce of 2 * 3/4 * 4 bytes, for four minibatches.
  EXPECT_NEAR(plan.step_s, (4 + 0.6) / 4, 1e-9);
  EXPECT_EQ(plan.stages[0].workers, (std::vector<std::string>{"w0", "w1", "w2", "w3"}));
  EXPECT_DOUBLE_EQ(plan.stages[0].sync_s, 0.6);
  EXPECT_EQ(plan.stages[0].warmup, 0);
  EXPECT_EQ(plan.stages[0].versions, 1);
}

TEST(PlannerTest, ReplicatesTheConvolutionsAndNotTheClassifier) {
  // 3 s with one byte of parameters in front, 1 s with many behind: 3-1, each about 1 s.
  ASSERT_OK_AND_ASSIGN(Plan plan,
                       MakePlan(Request({Node("conv", 3, 1, 0), Node("fc", 1, 1000, 0)}, 4, 10)));
  EXPECT_EQ(plan.config(), "3-1");
  EXPECT_DOUBLE_EQ(plan.bottleneck_s, 1);
  EXPECT_NEAR(plan.step_s, (3 + 2 * 2.0 / 3 / 10) / 3, 1e-9);
  // X_0 = 4, r_0 = 3: warm-up floor(3 / 3) = 1.
  EXPECT_EQ(plan.warmup(), (std::vector<int>{1, 0}));
}

TEST(PlannerTest, MemoryFollowsTheArithmetic) {
  std::vector<ChainNode> nodes = {Node("conv", 3, 8, 5), Node("fc", 1, 1000, 0)};
  nodes[0].profile.saved_bytes = 100;
  nodes[0].profile.state_bytes = 3;
  nodes[0].profile.workspace_bytes = 70;
  nodes[1].profile.saved_bytes = 7;
  PlanRequest request = Request(nodes, 4, 10);
  request.profiles[0].optimizer_state_tensors = 2;
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  ASSERT_EQ(plan.config(), "3-1");
  // 2 versions of 8 and the running statistics; the sum, with theirs; 2 optimizer tensors; 2 slots of
  // 100 and a share of the statistics; 2 channel slots x (5 + 5) bytes, and on the other side as much
  // for each of three peers.
  EXPECT_EQ(plan.stages[0].memory, (MemoryPrediction{19, 11, 16, 206, 20, 70}));
  EXPECT_EQ(plan.stages[1].memory, (MemoryPrediction{1000, 1000, 2000, 7, 60, 0}));
}

TEST(PlannerTest, HonoursTheSmallestWorkersMemory) {
  PlanRequest request = Request(FourEqual(100, 1), 4, 10);
  request.may_recompute = false;
  for (NodeProfile& node : request.profiles[0].nodes) node.saved_bytes = 1000;
  ASSERT_OK_AND_ASSIGN(Plan free, MakePlan(request));
  ASSERT_EQ(free.config(), "1-1-1-1");  // stage 0 holds 4 x 1000 and more
  for (DeviceInfo& device : request.topology.devices) device.memory_bytes = 3800;
  ASSERT_OK_AND_ASSIGN(Plan tight, MakePlan(request));
  EXPECT_NE(tight.config(), "1-1-1-1");
  for (const PlanStage& stage : tight.stages) EXPECT_LE(stage.memory.total(), 3800);
  EXPECT_THAT(Alternative(tight, "one worker").reason,
              HasSubstr("does not fit in memory: stage 0"));
  EXPECT_EQ(Alternative(tight, "one worker").step_s, 0);
  // Too small a worker is left out ...
  request.topology.devices[2].memory_bytes = 1000;
  ASSERT_OK_AND_ASSIGN(Plan fewer, MakePlan(request));
  for (const PlanStage& stage : fewer.stages)
    EXPECT_EQ(std::count(stage.workers.begin(), stage.workers.end(), "w2"), 0);
  // ... unless all are. By hand: a twice, b, c with d, which keep 2000 of one microbatch, have 200 of
  // weights and of gradients, and 2 slots for 2 bytes from b.
  for (DeviceInfo& device : request.topology.devices) device.memory_bytes = 1000;
  EXPECT_THAT(MakePlan(request).status(),
              StatusIs(StatusCode::kResourceExhausted,
                       HasSubstr("of the smallest, 2-1-1, stage 2 (c .. d) needs 2.35 KiB, a worker "
                                 "has 1000 B (weights 200 B, gradients 200 B")));
}

TEST(PlannerTest, FlushSchedulesKeepOneVersionAndFewerSlots) {
  PlanRequest request = Request(FourEqual(100, 0), 4, 1e9);
  for (NodeProfile& node : request.profiles[0].nodes) node.saved_bytes = 1000;
  request.max_replicas = 1;
  request.stages = 4;
  request.microbatches = 2;
  request.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "1-1-1-1");
  EXPECT_DOUBLE_EQ(plan.step_s, (2 + 4 - 1) * 1);
  EXPECT_DOUBLE_EQ(plan.bubble, 1 - 2.0 / 5);
  EXPECT_EQ(plan.stages[0].versions, 1);
  EXPECT_EQ(plan.stages[0].memory.weights, 100);
  EXPECT_EQ(plan.stages[0].memory.gradients, 200);     // sums over microbatches
  EXPECT_EQ(plan.stages[0].memory.activations, 2000);  // min(m, p) = 2 slots
  EXPECT_EQ(plan.stages[3].memory.activations, 1000);
  request.schedule = "gpipe";
  ASSERT_OK_AND_ASSIGN(Plan gpipe, MakePlan(request));
  EXPECT_EQ(gpipe.stages[3].memory.activations, 2000);
}

TEST(PlannerTest, FlushWeighsTheBubbleAgainstBalance) {
  // One microbatch cannot be pipelined: more workers only move bytes. A transfer takes 1 s.
  PlanRequest request = Request(FourEqual(1000000, 1), 4, 2);
  request.schedule = "1f1b";
  ASSERT_OK_AND_ASSIGN(Plan one, MakePlan(request));
  EXPECT_EQ(one.config(), "1");
  EXPECT_DOUBLE_EQ(one.step_s, 4);
  request.microbatches = 16;
  ASSERT_OK_AND_ASSIGN(Plan many, MakePlan(request));
  EXPECT_EQ(many.config(), "1-1-1-1");
  // Sixteen of 1 s; before and behind them three stages of 1 s, and three hops there and back.
  EXPECT_DOUBLE_EQ(many.step_s, 16 + 3 + 6 * 0.5);
}

TEST(PlannerTest, NegligibleNodesAreNoStagesUnlessAskedFor) {
  std::vector<ChainNode> nodes = {Node("conv", 1, 10, 0), Node("relu", 1e-6, 0, 0),
                                    Node("view", 0, 0, 0), Node("fc", 1, 10, 0)};
  PlanRequest request = Request(nodes, 4, 1e-3);  // too slow to replicate
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.config(), "1-1");
  EXPECT_THAT(plan.warnings.back(), HasSubstr("2 of 4 workers stay idle"));
  request.stages = 4;
  ASSERT_OK_AND_ASSIGN(Plan asked, MakePlan(request));
  EXPECT_EQ(asked.stages.size(), 4u);
}

TEST(PlannerTest, CutsOnlyWhereItIsLegal) {
  PlanRequest request = Request(FourEqual(100, 0), 4, 1e-3);
  request.profiles[0].ties = {{1, 2}};
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  EXPECT_EQ(plan.stage_of(), (std::vector<int>{0, 1, 1, 2}));
  request.stages = 4;
  EXPECT_THAT(MakePlan(request).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("cut into at most 3 (4 nodes")));
}

TEST(PlannerTest, OptionsBindTheSearch) {
  PlanRequest request = Request(FourEqual(1, 1), 4, 1000);
  request.max_replicas = 1;
  ASSERT_OK_AND_ASSIGN(Plan straight, MakePlan(request));
  EXPECT_EQ(straight.config(), "1-1-1-1");
  EXPECT_THAT(Alternative(straight, "data parallel").reason, HasSubstr("max_replicas is 1; "));
  request.stages = 2;
  request.warmup = {5, 1};
  ASSERT_OK_AND_ASSIGN(Plan two, MakePlan(request));
  EXPECT_EQ(two.config(), "1-1");
  EXPECT_EQ(two.warmup(), (std::vector<int>{5, 1}));
  EXPECT_EQ(two.stages[0].versions, 6);
  request.warmup.clear();
  request.stages = 0;
  request.max_replicas = 0;
  request.workers = 3;
  ASSERT_OK_AND_ASSIGN(Plan three, MakePlan(request));
  EXPECT_EQ(three.config(), "3");
}

TEST(PlannerTest, TiesGoToFewerBytes) {
  // Both cuts balance equally (the middle node is free); the second carries less.
  std::vector<ChainNode> nodes = {Node("a", 1, 100, 50), Node("pool", 0, 0, 3),
                                    Node("b", 1, 100, 0)};
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(Request(nodes, 2, 1000)));
  EXPECT_EQ(plan.stage_of(), (std::vector<int>{0, 0, 1}));
}

TEST(PlannerTest, UnlikeDevicesGetUnlikeShares) {
  PlanRequest request = Request(FourEqual(100, 0), 2, 10);
  request.profiles.push_back(request.profiles[0]);
  request.profiles[1].device_kind = "old";
  for (NodeProfile& node : request.profiles[1].nodes) node.forward_s += 1;
  request.topology.devices[1].kind = "old";
  ASSERT_OK_AND_ASSIGN(Plan plan, MakePlan(request));
  // Three nodes of 1 s on the new one, one of 2 s on the old one.
  EXPECT_DOUBLE_EQ(plan.step_s, 3);
  request.topology.devices[1].kind = "cpu";
  request.topology.devices[1].speed = 0.5;
  ASSERT_OK_AND_ASSIGN(Plan slow, MakePlan(request));
  EXPECT_DOUBLE_EQ(slow.step_s, 3);
  EXPECT_EQ(slow.stages.size(), 2u);
  request.topology.devices[1].kind = "unknown";
  EXPECT_THAT(MakePlan(request).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("worker w1, 'unknown'")));
}

TEST(PlannerTest, WarnsOfSlowLinksAndOfNodesThatCannotBeBalanced) {
  ASSERT_OK_AND_ASSIGN(Plan slow,
                       MakePlan(Request({Node("a", 1, 100, 12), Node("b", 1, 100, 0)}, 2, 10)));
  ASSERT_EQ(slow.config(), "1-1");
  ASSERT_FALSE(slow.warnings.empty());
  EXPECT_THAT(slow.warnings[0], HasSubstr("bound by the network (the 24 B per microbatch between "
                                          "stages 0 and 1): 1.2 s per minibatch"));
  ASSERT_OK_AND_ASSIGN(
      Plan uneven, MakePlan(Request({Node("big", 9, 1000, 0), Node("small", 1, 1000, 0)}, 2, 10)));
  ASSERT_FALSE(uneven.warnings.empty());
  EXPECT_THAT(uneven.warnings[0], HasSubstr("node big (Conv) alone takes 9.0 s of 10.0 s"));
}

TEST(PlannerTest, RefusesBadRequestsNamingTheField) {
  struct Case {
    std::function<void(PlanRequest*)> spoil;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](PlanRequest* r) { r->stages = 5; },
       "stages: 5 stages asked for, but the model can be cut into at most 4"},
      {[](PlanRequest* r) {
         r->stages = 4;
         r->workers = 3;
       },
       "stages: 4 stages need as many workers, 3"},
      {[](PlanRequest* r) { r->workers = 5; }, "workers: 5 asked for, 4 there"},
      {[](PlanRequest* r) { r->microbatches = 2; }, "microbatches: 2 does not go with"},
      {[](PlanRequest* r) { r->schedule = "nonsense"; }, "nonsense"},
      {[](PlanRequest* r) { r->profiles.clear(); }, "profiles: none"},
      {[](PlanRequest* r) { r->profiles[0].nodes.clear(); }, "has no nodes"},
      {[](PlanRequest* r) { r->batch_size = 64; },
       "measured with microbatches of 0 samples, the job's have 64"},
      {[](PlanRequest* r) { r->topology.devices.clear(); }, "topology: "},
      {[](PlanRequest* r) { r->topology.links.clear(); }, "no link between them"},
      {[](PlanRequest* r) { r->topology.links[0].bandwidth_bytes_per_s = 0; },
       "w0 -> w1 has bandwidth 0"},
      {[](PlanRequest* r) { r->warmup = {1}; }, "warmup: 1 numbers"},
      {[](PlanRequest* r) {
         r->use_all_workers = true;
         r->max_replicas = 1;
         r->stages = 2;
       },
       "leave no plan"},
  };
  for (const Case& c : cases) {
    PlanRequest request = Request(FourEqual(1, 1), 4, 10);
    c.spoil(&request);
    EXPECT_THAT(MakePlan(request).status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace pipedream
