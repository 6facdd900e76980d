#include "common/planner/planner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/planner/candidates.h"
#include "common/planner/check_request.h"
#include "common/planner/reasons.h"

namespace pipedream {
namespace {

// One of the plans that everybody knows.
struct Familiar {
  std::string name;
  std::optional<Candidate> candidate;
  std::string excluded;  // by which option, or why there is none; empty: may be chosen
};

std::vector<Familiar> FamiliarPlans(const PlanRequest& request, const CandidateSource& source) {
  if (!source.free_layout()) return {};
  const int nodes = static_cast<int>(source.profile().nodes.size());
  const int replicas = source.useful_replicas(source.workers());
  Familiar parallel{"data parallel", std::nullopt, ""};
  if (replicas < 2) {
    parallel.excluded =
        source.workers() < 2 ? "needs two workers" : "needs two microbatches per minibatch";
  } else {
    parallel.candidate = source.Measure({{0, nodes, replicas}});
    if (request.stages > 1) parallel.excluded = fmt::format("stages is {}", request.stages);
    if (replicas > source.max_replicas())
      parallel.excluded = fmt::format("max_replicas is {}", request.max_replicas);
  }
  Familiar straight{"straight pipeline", source.Search(1, 2), ""};
  if (!straight.candidate) {
    straight.excluded = source.workers() < 2  ? "needs two workers"
                        : request.stages == 1 ? "stages is 1"
                                              : "no division fits in memory";
  }
  Familiar one{"one worker", source.Measure({{0, nodes, 1}}), ""};
  if (request.stages > 1) one.excluded = fmt::format("stages is {}", request.stages);
  std::vector<Familiar> out = {std::move(parallel), std::move(straight), std::move(one)};
  for (Familiar& plan : out) {
    if (request.use_all_workers && plan.candidate && plan.candidate->workers < source.workers())
      plan.excluded = "leaves workers idle";
  }
  return out;
}

PlanAlternative Listed(const CandidateSource& source, const Familiar& plan,
                       const Candidate& chosen) {
  PlanAlternative out;
  out.name = plan.name;
  if (!plan.candidate) {
    out.config = "-";
    out.reason = plan.excluded;
    return out;
  }
  out.config = plan.candidate->config;
  out.step_s = plan.candidate->fits() ? plan.candidate->step_s : 0;
  out.reason = WhyNot(source, *plan.candidate, chosen);
  if (!plan.excluded.empty()) out.reason = fmt::format("{}; {}", plan.excluded, out.reason);
  return out;
}

std::vector<PlanStage> Stages(const PlanRequest& request, const CandidateSource& source,
                              const Candidate& chosen) {
  std::vector<PlanStage> out;
  const CostModel costs = source.Costs(static_cast<int>(chosen.partition.size()));
  ScheduleShape layout;
  for (const StagePart& part : chosen.partition) layout.replicas.push_back(part.replicas);
  layout.device_of = chosen.device_of;
  for (size_t s = 0; s < chosen.partition.size(); ++s) {
    const StagePart& part = chosen.partition[s];
    const NodeSums sums = costs.Sums(part);
    PlanStage stage;
    stage.first_node = part.begin;
    stage.last_node = part.end - 1;
    stage.first_node_name = source.profile().nodes[part.begin].name;
    stage.last_node_name = source.profile().nodes[part.end - 1].name;
    for (int r = 0; r < part.replicas; ++r) {
      const int worker = WorkerIndex(layout, {StageId(static_cast<int>(s)), ReplicaId(r)});
      const int device = source.order()[worker];
      stage.workers.push_back(request.topology.devices[device].worker_id);
    }
    stage.warmup = chosen.warmup[s];
    stage.versions = chosen.versions[s];
    stage.compute_s = costs.ComputeSeconds(sums, part.replicas);
    stage.sync_s = costs.SyncSeconds(sums, part.replicas, chosen.bandwidth);
    stage.sent_bytes = costs.CutBytes(part.end);
    if (stage.sent_bytes > 0)
      stage.send_s = static_cast<double>(stage.sent_bytes) / chosen.bandwidth;
    stage.parameter_bytes = sums.parameter_bytes;
    stage.memory = chosen.memory[s];
    out.push_back(std::move(stage));
  }
  return out;
}

// Idle share of the worker that computes most.
double Bubble(const PlanRequest& request, const CandidateSource& source, const Candidate& chosen) {
  const CostModel costs = source.Costs(static_cast<int>(chosen.partition.size()));
  std::map<int, double> busy;  // by device
  double busiest = 0;
  for (size_t s = 0; s < chosen.partition.size(); ++s) {
    const StagePart& part = chosen.partition[s];
    const StageTimes times = costs.Times(costs.Sums(part), part, chosen.bandwidth);
    double& device = busy[chosen.device_of.empty() ? static_cast<int>(s) : chosen.device_of[s]];
    device += times.compute_s * request.microbatches;
    busiest = std::max(busiest, device);
  }
  if (chosen.step_s <= 0) return 0;
  return std::clamp(1 - busiest / chosen.step_s, 0.0, 1.0);
}

absl::Status NothingFits(const CandidateSource& source) {
  const std::optional<Candidate> smallest = source.Smallest();
  if (!smallest) {
    return InvalidArgument(
        "stages, workers and max_replicas leave no plan: {} workers, at most {} replicas per stage",
        source.workers(), source.max_replicas());
  }
  if (!smallest->refused.ok()) return smallest->refused;
  const MemoryPrediction& memory = smallest->memory[smallest->fullest_stage];
  return ResourceExhausted(
      "no plan fits in memory: of the smallest, {}, {} (weights {}, gradients {}, optimizer {}, "
      "activations {}, buffers {}, workspace {}); use a smaller batch, more workers, or a flush "
      "schedule with more microbatches",
      smallest->config, MemoryLack(source, *smallest), FormatBytes(memory.weights),
      FormatBytes(memory.gradients), FormatBytes(memory.optimizer), FormatBytes(memory.activations),
      FormatBytes(memory.buffers), FormatBytes(memory.workspace));
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request, bool part_ties) {
  PD_ASSIGN_OR_RETURN(const CandidateSource source, CandidateSource::Create(request, part_ties));
  const std::vector<Familiar> familiar = FamiliarPlans(request, source);
  std::optional<Candidate> best = source.Search(source.max_replicas(), 1);
  for (const Familiar& plan : familiar) {
    if (!plan.candidate || !plan.excluded.empty() || !plan.candidate->fits()) continue;
    if (!best || Better(*plan.candidate, *best)) best = plan.candidate;
  }
  if (!best) return NothingFits(source);
  Plan plan;
  plan.schedule = request.table != nullptr ? request.table->name : request.schedule;
  const bool played =
      !source.by_formula() && (IsSynchronous(source.schedule().policy) || request.table != nullptr);
  plan.rule = played ? "simulated" : "paper";
  plan.stages = Stages(request, source, *best);
  plan.device_of = best->device_of;
  plan.own_warmup = !source.by_formula() && request.warmup.empty();
  plan.step_s = best->step_s;
  plan.bubble = Bubble(request, source, *best);
  for (const Familiar& other : familiar) plan.alternatives.push_back(Listed(source, other, *best));
  plan.warnings = Warnings(source, *best);
  return plan;
}

// Stages at whose beginning the readers of a parameter are parted.
std::vector<int> TiedCuts(const PlanRequest& request, const Plan& plan) {
  std::vector<int> out;
  for (size_t s = 1; s < plan.stages.size(); ++s)
    if (!request.profiles[0].nodes[plan.stages[s].first_node - 1].legal_cut)
      out.push_back(static_cast<int>(s));
  return out;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  absl::StatusOr<Plan> plan = MakePlan(request, false);
  if (plan.ok()) return plan;
  absl::StatusOr<JobSchedule> schedule = CheckRequest(request);
  if (!schedule.ok() || !AllowsTies(schedule->policy)) return plan;
  absl::StatusOr<Plan> parted = MakePlan(request, true);
  if (!parted.ok()) return plan;
  parted->warnings.push_back(
      fmt::format("the readers of a parameter are parted before stage {}: each holds a copy, and "
                  "their gradients are summed before every update",
                  fmt::join(TiedCuts(request, *parted), ", ")));
  return parted;
}

}  // namespace pipedream
