// The search against everything that it might have found.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/common/planner/chain_profile.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

// The rules of planner.md section 3, written anew, minimised over every division of a chain.
double BestByRule(const std::vector<ChainNode>& nodes, const std::string& rule, int workers,
                  double bandwidth, bool use_all) {
  const int count = static_cast<int>(nodes.size());
  double best = 1e300;
  std::function<void(int, int, int, double)> extend = [&](int begin, int left, int before,
                                                          double worst) {
    if (begin == count) {
      if (left == 0 || !use_all) best = std::min(best, worst);
      return;
    }
    for (int end = begin + 1; end <= count; ++end) {
      if (end < count && nodes[end - 1].tied_on) continue;
      double compute = 0, parameters = 0;
      for (int n = begin; n < end; ++n) {
        compute += nodes[n].profile.compute_s();
        parameters += static_cast<double>(nodes[n].profile.parameter_bytes);
      }
      for (int r = 1; r <= left; ++r) {
        const double share = (r - 1.0) / r * parameters / bandwidth;
        double time = rule == "code"    ? (compute + 4 * share) / r
                      : rule == "paper" ? std::max(compute, 4 * share) / r
                                        : std::max(compute, 2 * share) / r;
        if (begin > 0) {
          const auto cut = static_cast<double>(nodes[begin - 1].cut);
          time = std::max(time, rule == "duplex" ? cut / (bandwidth * std::min(before, r))
                                                 : 2 * cut / (bandwidth * r));
        }
        extend(end, left - r, r, std::max(worst, time));
      }
    }
  };
  extend(0, workers, 0, 0);
  return best;
}

TEST(PlannerSearchTest, FindsTheOptimumOfEveryPublishedRule) {
  const unsigned seed = 20240607;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<ChainNode> nodes;
    for (int n = draw(1, 6); n > 0; --n) {
      nodes.push_back(Node("n" + std::to_string(n), draw(1, 20), draw(0, 300), draw(0, 60)));
      nodes.back().tied_on = draw(0, 4) == 0;
    }
    const int workers = draw(2, 5);
    const double bandwidth = draw(1, 30);
    PlanRequest request = ChainRequest(nodes, workers, bandwidth);
    request.rule = std::vector<std::string>{"code", "paper", "duplex"}[round % 3];
    request.use_all_workers = draw(0, 1) == 1;
    const double best =
        BestByRule(nodes, request.rule, workers, bandwidth, request.use_all_workers);
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (best == 1e300) {
      EXPECT_FALSE(plan.ok()) << "fewer places than workers, and all must be used";
      continue;
    }
    ASSERT_OK(plan);
    EXPECT_NEAR(plan->step_s, best, best * 1e-9);
    ASSERT_OK_AND_ASSIGN(Plan again, MakePlan(request));
    EXPECT_EQ(*plan, again);
  }
}

// A graph with branches, unlike workers, ways and memories.
PlanRequest RandomRequest(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  PlanRequest request;
  Profile& profile = request.profiles.emplace_back();
  profile.device_kind = "cpu";
  profile.optimizer_state_tensors = draw(0, 2);
  const int nodes = draw(2, 5);
  for (int n = 0; n < nodes; ++n) {
    profile.nodes.push_back(
        Node("n" + std::to_string(n), draw(1, 20), draw(1, 300), 0).profile);
    profile.nodes.back().saved_bytes = draw(0, 500);
    if (n == 0) continue;
    // From the node before, and perhaps from an earlier one instead or as well.
    const int maker = draw(0, 2) == 0 ? draw(0, n - 1) : n - 1;
    const int64_t bytes = draw(1, 80);
    profile.tensors.push_back({{maker}, {n}, bytes, false, {}, 0});
    profile.tensors.push_back({{maker}, {n}, bytes, true, {}, 0});
  }
  const int workers = draw(2, 3);
  for (int w = 0; w < workers; ++w) {
    request.topology.devices.push_back({"w" + std::to_string(w), "cpu",
                                        draw(0, 2) == 0 ? draw(2000, 6000) : 0,
                                        "h" + std::to_string(w / 2), draw(2, 4) / 4.0});
  }
  request.topology.ports = {{"h0", 1.0 * draw(5, 40)}, {"h1", 1.0 * draw(5, 40)}};
  for (int a = 0; a < workers; ++a) {
    for (int b = 0; b < workers; ++b) {
      if (a == b) continue;
      const bool near = a / 2 == b / 2;
      request.topology.links.push_back({a, b, 1.0 * (near ? draw(50, 90) : draw(5, 40)),
                                        draw(0, 10) / 10.0, near ? "shm" : "tcp",
                                        near ? -1 : a / 2, near ? -1 : b / 2});
    }
  }
  if (draw(0, 1) == 1) {
    request.schedule = "1f1b";
    request.microbatches = draw(1, 4);
  }
  return request;
}

// Every plan that there is: each node in a stage, each worker in one of them or idle.
double BestOfAll(const PlanRequest& request, int* plans) {
  const int nodes = static_cast<int>(request.profiles[0].nodes.size());
  const int workers = static_cast<int>(request.topology.devices.size());
  double best = 1e300;
  for (int stages = 1; stages <= std::min(nodes, workers); ++stages) {
    std::vector<int> stage_of(nodes), place_of(workers);
    std::function<void(int)> place = [&](int w) {
      if (w < workers) {
        for (place_of[w] = -1; place_of[w] < stages; ++place_of[w]) place(w + 1);
        return;
      }
      Plan plan;
      plan.schedule = request.schedule;
      plan.own_warmup = true;
      plan.stages.resize(stages);
      for (int n = 0; n < nodes; ++n) plan.stages[stage_of[n]].nodes.push_back(n);
      for (int v = 0; v < workers; ++v) {
        if (place_of[v] < 0) continue;
        plan.stages[place_of[v]].workers.push_back(request.topology.devices[v].worker_id);
      }
      const absl::StatusOr<Plan> judged = EvaluatePlan(request, plan);
      if (!judged.ok()) return;
      ++*plans;
      best = std::min(best, judged->step_s);
    };
    std::function<void(int)> cut = [&](int n) {
      if (n == nodes) return place(0);
      for (stage_of[n] = 0; stage_of[n] < stages; ++stage_of[n]) cut(n + 1);
    };
    cut(0);
  }
  return best;
}

TEST(PlannerSearchTest, IsWithinTwoPercentOfEverythingThereIs) {
  int plans = 0, exact = 0, rounds = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const PlanRequest request = RandomRequest(random);
    const double best = BestOfAll(request, &plans);
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (best == 1e300) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted) << plan.status();
      continue;
    }
    ASSERT_OK(plan);
    EXPECT_LE(plan->step_s, best * 1.02);
    ++rounds;
    exact += plan->step_s <= best * (1 + 1e-9);
    for (const PlanAlternative& other : plan->alternatives) {
      if (other.step_s == 0) continue;
      EXPECT_GE(other.step_s, plan->step_s * (1 - 1e-9)) << other.name;
    }
  }
  EXPECT_GT(rounds, 30);
  printf("seeds 1 to 40: %d of %d the best of all (%d plans)\n", exact, rounds, plans);
}

}  // namespace
}  // namespace pipedream
