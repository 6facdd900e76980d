#include "common/planner/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <map>
#include <optional>
#include <set>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/planner/check_request.h"
#include "common/planner/layout_search.h"
#include "common/planner/placement.h"
#include "common/planner/published_rules.h"
#include "common/planner/reasons.h"

namespace pipedream {
namespace {

// Copies of a parameter in several stages stay equal: updates wait for all gradients.
bool AllowsTies(WeightPolicy policy) {
  return IsSynchronous(policy) || policy == WeightPolicy::kDoubleBuffer;
}

// Everything that one request stands on.
struct Planning {
  Planning(const PlanRequest& r, JobSchedule s, const LatticeOptions& options,
           const std::vector<int>& devices)
      : request(r),
        schedule(std::move(s)),
        lattice(r.profiles[0], options),
        cluster(r.topology, r.profiles, devices),
        costs(request, schedule, lattice, cluster) {}

  // For a given division.
  Planning(const PlanRequest& r, JobSchedule s, const std::vector<std::vector<int>>& stages,
           const std::vector<int>& devices)
      : request(r),
        schedule(std::move(s)),
        lattice(r.profiles[0], stages),
        cluster(r.topology, r.profiles, devices),
        costs(request, schedule, lattice, cluster) {}

  const PlanRequest& request;
  const JobSchedule schedule;
  const CutLattice lattice;
  const Cluster cluster;
  const LayoutCosts costs;

  bool free_layout() const {
    return schedule.table == nullptr && schedule.info->place == nullptr &&
           schedule.info->name != "data_parallel";
  }
  int useful_replicas() const {
    const int replicas =
        request.max_replicas > 0 ? std::min(request.max_replicas, cluster.size()) : cluster.size();
    return costs.by_minibatch() ? std::min(replicas, request.microbatches) : replicas;
  }
  SearchSettings Settings() const {
    SearchSettings settings;
    settings.stages =
        schedule.table != nullptr ? schedule.table->shape.stages() : request.stages;
    settings.max_replicas = useful_replicas();
    settings.use_all = request.use_all_workers;
    const int n = cluster.size();
    settings.most_estimates = n <= 8 ? 20000 : 4000;
    settings.most_measures = n <= 4 ? 400 : n <= 8 ? 100 : n <= 16 ? 24 : 6;
    return settings;
  }
};

std::vector<int> DevicesOf(const PlanRequest& request) {
  std::vector<int> order = OrderWorkers(request.topology);
  if (request.workers > 0) order.resize(request.workers);
  return order;
}

// --- Whether the request can be met ----------------------------------------------------------

absl::Status CheckStages(const Planning& planning, const CutLattice& all_cuts, bool part_ties) {
  const PlanRequest& request = planning.request;
  const JobSchedule& schedule = planning.schedule;
  const int wanted = std::max(
      schedule.table != nullptr ? schedule.table->shape.stages() : request.stages, schedule.chunks);
  if (wanted > all_cuts.most_stages()) {
    std::string remedy;
    if (!request.profiles[0].ties.empty() && !part_ties && !AllowsTies(schedule.policy)) {
      remedy = fmt::format(
          "; more would part the readers of a parameter, which synchronous schedules and 2bw allow, "
          "'{}' does not",
          request.schedule);
    }
    return InvalidArgument(
        "stages: {} stages asked for, but the model can be cut into at most {} ({} nodes{})", wanted,
        all_cuts.most_stages(), request.profiles[0].nodes.size(), remedy);
  }
  const int devices = request.stages / schedule.chunks;
  if (schedule.table == nullptr && devices > planning.cluster.size()) {
    if (schedule.chunks > 1) {
      return InvalidArgument(
          "stages: {} stages, {} on each device, need {} workers, {} may be used", request.stages,
          schedule.chunks, devices, planning.cluster.size());
    }
    return InvalidArgument("stages: {} stages need as many workers, {} may be used",
                           request.stages, planning.cluster.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Planning>> Prepare(const PlanRequest& request, bool part_ties) {
  PD_ASSIGN_OR_RETURN(JobSchedule schedule, CheckRequest(request));
  const std::vector<int> devices = DevicesOf(request);
  LatticeOptions options{.part_ties = part_ties,
                         .negligible_share =
                             request.rule == "measured" ? request.negligible_share : 0};
  if (devices.size() > 24) options.most_cuts = 400;
  auto planning = std::make_unique<Planning>(request, schedule, options, devices);
  const int wanted = std::max(
      schedule.table != nullptr ? schedule.table->shape.stages() : request.stages, schedule.chunks);
  if (wanted > planning->lattice.most_stages()) {
    // Every node may be a stage if nothing else will do.
    options.negligible_share = -1;
    auto finer = std::make_unique<Planning>(request, schedule, options, devices);
    PD_RETURN_IF_ERROR(CheckStages(*finer, finer->lattice, part_ties));
    return finer;
  }
  PD_RETURN_IF_ERROR(CheckStages(*planning, planning->lattice, part_ties));
  return planning;
}

// --- The plan as others read it --------------------------------------------------------------

Plan Describe(const Planning& planning, const Candidate& chosen) {
  const PlanRequest& request = planning.request;
  const LayoutCosts& costs = planning.costs;
  const Layout& layout = chosen.layout;
  Plan plan;
  plan.schedule = request.table != nullptr ? request.table->name : request.schedule;
  plan.rule = request.rule;
  plan.device_of = layout.group_of;
  plan.own_warmup = !costs.by_formula() && layout.warmup.empty();
  plan.step_s = chosen.step_s;
  plan.bottleneck_s = chosen.bottleneck_s;
  plan.moved_bytes = static_cast<int64_t>(chosen.bytes);
  const std::vector<LayoutCosts::Edge> edges = costs.Edges(layout);
  for (int s = 0; s < layout.stages(); ++s) {
    PlanStage& stage = plan.stages.emplace_back();
    const int from = layout.cuts[s], to = layout.cuts[s + 1];
    stage.nodes = planning.lattice.NodesBetween(from, to);
    stage.first_node_name = request.profiles[0].nodes[stage.nodes.front()].name;
    stage.last_node_name = request.profiles[0].nodes[stage.nodes.back()].name;
    const double r = layout.replicas(s);
    const double own = costs.by_minibatch() ? std::ceil(request.microbatches / r) : 1;
    for (const int d : layout.on(s)) {
      stage.workers.push_back(request.topology.devices[planning.cluster.device(d)].worker_id);
      const StageWork work = costs.Work(from, to, d, chosen.recompute[s]);
      stage.compute_s =
          std::max(stage.compute_s, work.forward_s + work.backward_s + work.step_s / own);
    }
    stage.warmup = chosen.warmup[s];
    stage.versions = chosen.versions[s];
    stage.recompute = chosen.recompute[s];
    stage.sync_s = costs.SyncSeconds(layout, s);
    stage.parameter_bytes = costs.ParameterBytes(from, to);
    for (const LayoutCosts::Edge& edge : edges)
      if (edge.from == s) stage.sent_bytes += edge.forward_bytes + edge.gradient_bytes;
    if (stage.sent_bytes > 0 && s + 1 < layout.stages()) {
      std::vector<int> both = layout.on(s);
      both.insert(both.end(), layout.on(s + 1).begin(), layout.on(s + 1).end());
      const double bandwidth = planning.cluster.SlowestBandwidth(both);
      stage.send_s = static_cast<double>(stage.sent_bytes) / bandwidth;
    }
    stage.memory = chosen.memory[s];
  }
  // Idle share of the worker that computes most.
  const Load load = costs.Bottleneck(layout, chosen.recompute);
  if (chosen.step_s > 0)
    plan.bubble = std::clamp(1 - load.longest_compute_s / chosen.step_s, 0.0, 1.0);
  const int64_t parameters = costs.ParameterBytes(0, planning.lattice.last());
  const int workers = layout.workers();
  const int64_t reduced = 2 * int64_t{workers - 1} * parameters;
  plan.data_parallel_bytes = costs.by_minibatch() ? reduced : reduced / std::max(workers, 1);
  return plan;
}

// No layout is faster: all workers at once, none ever idle.
double FastestPossible(const Planning& planning) {
  double rate = 0;
  for (int d = 0; d < planning.cluster.size(); ++d) {
    const double seconds = planning.costs.ComputeSeconds(0, planning.lattice.last(), d);
    if (seconds > 0) rate += 1 / seconds;
  }
  return rate > 0 ? planning.request.microbatches / rate : 0;
}

// --- Plans that everybody knows ----------------------------------------------------------------

struct Familiar {
  std::string name;
  std::optional<Candidate> candidate;
  std::string excluded;  // by which option, or why there is none; empty: may be chosen
};

// The workers on which one copy of the model is done soonest, best first.
std::vector<int> BySpeed(const Planning& planning) {
  std::vector<int> out(planning.cluster.size());
  for (size_t d = 0; d < out.size(); ++d) out[d] = static_cast<int>(d);
  std::ranges::stable_sort(out, [&](int a, int b) {
    return planning.costs.ComputeSeconds(0, planning.lattice.last(), a) <
           planning.costs.ComputeSeconds(0, planning.lattice.last(), b);
  });
  return out;
}

Layout OneStage(const Planning& planning, std::vector<int> devices) {
  std::ranges::sort(devices);
  Layout layout{{0, planning.lattice.last()}, {std::move(devices)}, {}, {}};
  if (planning.request.warmup.size() == 1) layout.warmup = planning.request.warmup;
  return layout;
}

std::vector<Familiar> FamiliarPlans(const Planning& planning) {
  if (!planning.free_layout()) return {};
  const PlanRequest& request = planning.request;
  const int workers = planning.cluster.size();
  const std::vector<int> by_speed = BySpeed(planning);
  const int replicas =
      planning.costs.by_minibatch() ? std::min(workers, request.microbatches) : workers;
  Familiar parallel{"data parallel", std::nullopt, ""};
  if (replicas < 2) {
    parallel.excluded =
        workers < 2 ? "needs two workers" : "needs two microbatches per minibatch";
  } else {
    parallel.candidate = planning.costs.MeasureAtBestDepth(
        OneStage(planning, {by_speed.begin(), by_speed.begin() + replicas}));
    if (request.stages > 1) parallel.excluded = fmt::format("stages is {}", request.stages);
    if (replicas > planning.useful_replicas())
      parallel.excluded = fmt::format("max_replicas is {}", request.max_replicas);
  }
  Familiar straight{"straight pipeline", std::nullopt, ""};
  if (workers >= 2 && request.stages != 1 && planning.lattice.most_stages() >= 2) {
    SearchSettings settings = planning.Settings();
    settings.straight = true;
    settings.most_measures = std::min(settings.most_measures, 8);
    settings.most_estimates = std::min(settings.most_estimates, 2000);
    SearchResult found = SearchLayouts(planning.costs, settings);
    if (!found.best.empty()) straight.candidate = found.best.front();
  }
  if (!straight.candidate) {
    straight.excluded = workers < 2                           ? "needs two workers"
                        : request.stages == 1                 ? "stages is 1"
                        : planning.lattice.most_stages() < 2 ? "the model cannot be cut"
                                                              : "no division of the model";
  }
  Familiar one{"one worker", planning.costs.MeasureAtBestDepth(OneStage(planning, {by_speed[0]})), ""};
  for (size_t d = 1; d < by_speed.size() && !one.candidate->fits(); ++d) {
    Candidate other = planning.costs.MeasureAtBestDepth(OneStage(planning, {by_speed[d]}));
    if (other.fits()) one.candidate = std::move(other);
  }
  if (request.stages > 1) one.excluded = fmt::format("stages is {}", request.stages);
  std::vector<Familiar> out = {std::move(parallel), std::move(straight), std::move(one)};
  for (Familiar& plan : out) {
    if (request.use_all_workers && plan.candidate && plan.candidate->layout.workers() < workers)
      plan.excluded = "leaves workers idle";
  }
  return out;
}

PlanAlternative Listed(const Planning& planning, const Familiar& plan, const Candidate& chosen) {
  PlanAlternative out;
  out.name = plan.name;
  if (!plan.candidate) {
    out.config = "-";
    out.reason = plan.excluded;
    return out;
  }
  out.config = plan.candidate->layout.config();
  if (plan.candidate->fits()) {
    out.step_s = plan.candidate->step_s;
    out.bottleneck_s = plan.candidate->bottleneck_s;
  }
  out.reason = WhyNot(planning.costs, *plan.candidate, chosen);
  if (!plan.excluded.empty()) out.reason = fmt::format("{}; {}", plan.excluded, out.reason);
  return out;
}

// --- By the published rules ----------------------------------------------------------------------

absl::StatusOr<Plan> PublishedPlan(const Planning& planning) {
  const PlanRequest& request = planning.request;
  PD_ASSIGN_OR_RETURN(const PublishedRule rule, ParsePublishedRule(request.rule));
  if (request.schedule != "pipedream" || request.table != nullptr) {
    return InvalidArgument(
        "rule: '{}' describes schedule 'pipedream' only, not '{}'; use rule 'measured'",
        request.rule, request.schedule);
  }
  const int workers = planning.cluster.size();
  std::vector<int> row(workers);
  for (int d = 0; d < workers; ++d) row[d] = d;
  double bandwidth = planning.cluster.SlowestBandwidth(row);
  // What a worker has for itself of a port that is shared.
  const PublishedCosts costs(rule, request.profiles[0], planning.lattice, bandwidth);
  SegmentLimits limits{.positions = workers,
                       .max_replicas = planning.useful_replicas(),
                       .use_all = request.use_all_workers,
                       .stages = request.stages,
                       .cuts = {}};
  for (int cut = 0; cut < planning.lattice.size(); ++cut) limits.cuts.push_back(cut);
  const std::optional<std::vector<Segment>> best = BestSegments(planning.lattice, costs, limits);
  if (!best) {
    return InvalidArgument(
        "stages, workers and max_replicas leave no plan: {} workers, at most {} replicas per stage",
        workers, limits.max_replicas);
  }
  Layout layout;
  layout.cuts = {0};
  for (const Segment& segment : *best) {
    layout.cuts.push_back(segment.to);
    std::vector<int>& group = layout.devices.emplace_back();
    for (int k = 0; k < segment.replicas; ++k) group.push_back(segment.first + k);
  }
  Candidate chosen = planning.costs.Estimate(layout);
  if (!chosen.fits()) {
    return ResourceExhausted(
        "rule '{}' does not know of memory, and its plan {} does not fit: {}; use rule 'measured'",
        request.rule, layout.config(), MemoryLack(planning.costs, chosen));
  }
  chosen.bottleneck_s = chosen.step_s = costs.Bottleneck(*best);
  Plan plan = Describe(planning, chosen);
  plan.own_warmup = false;
  if (!planning.lattice.complete()) {
    const double bound = FastestPossible(planning);
    if (bound > 0) plan.optimality_gap = std::max(0.0, plan.bottleneck_s / bound - 1);
  }
  const auto list = [&](std::string name, const std::vector<Segment>& stages) {
    PlanAlternative& other = plan.alternatives.emplace_back();
    std::vector<int> counts;
    for (const Segment& stage : stages) counts.push_back(stage.replicas);
    other.name = std::move(name);
    other.config = fmt::format("{}", fmt::join(counts, "-"));
    other.step_s = other.bottleneck_s = costs.Bottleneck(stages);
    const double ratio = other.step_s / plan.step_s;
    other.reason = ratio > 1.0005 ? fmt::format("{:.3g} times slower", ratio) : "as fast";
  };
  if (workers > 1) {
    list("data parallel", {{0, planning.lattice.last(), 0, workers}});
    limits.max_replicas = 1;
    limits.use_all = false;
    limits.stages = 0;
    if (const auto straight = BestSegments(planning.lattice, costs, limits))
      list("straight pipeline", *straight);
  }
  list("one worker", {{0, planning.lattice.last(), 0, 1}});
  return plan;
}

// --- By measure ------------------------------------------------------------------------------------

absl::Status NothingFits(const Planning& planning, const SearchResult& found) {
  if (found.best.empty()) {
    return InvalidArgument(
        "stages, workers and max_replicas leave no plan: {} workers, at most {} replicas per stage",
        planning.cluster.size(), planning.useful_replicas());
  }
  const auto lacks = [](const Candidate& c) {
    return std::pair(!c.refused.ok(), c.needed_bytes - c.available_bytes);
  };
  const Candidate& smallest = *std::ranges::min_element(
      found.best, [&](const Candidate& a, const Candidate& b) { return lacks(a) < lacks(b); });
  if (!smallest.refused.ok()) return smallest.refused;
  const MemoryPrediction& memory = smallest.memory[smallest.fullest_stage];
  return ResourceExhausted(
      "no plan fits in memory: of the smallest, {}, {} (weights {}, gradients {}, optimizer {}, "
      "activations {}, buffers {}, workspace {}); use a smaller batch, more workers, or a flush "
      "schedule with more microbatches",
      smallest.layout.config(), MemoryLack(planning.costs, smallest), FormatBytes(memory.weights),
      FormatBytes(memory.gradients), FormatBytes(memory.optimizer),
      FormatBytes(memory.activations), FormatBytes(memory.buffers),
      FormatBytes(memory.workspace));
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request, bool part_ties) {
  PD_ASSIGN_OR_RETURN(const std::unique_ptr<Planning> planning, Prepare(request, part_ties));
  if (request.rule != "measured") return PublishedPlan(*planning);
  const SearchResult found = SearchLayouts(planning->costs, planning->Settings());
  std::optional<Candidate> best;
  if (!found.best.empty() && found.best.front().fits()) best = found.best.front();
  const std::vector<Familiar> familiar = FamiliarPlans(*planning);
  for (const Familiar& plan : familiar) {
    if (!plan.candidate || !plan.excluded.empty() || !plan.candidate->fits()) continue;
    if (!best || Better(*plan.candidate, *best)) best = plan.candidate;
  }
  if (!best) return NothingFits(*planning, found);
  Plan plan = Describe(*planning, *best);
  const double bound = FastestPossible(*planning);
  if (!found.exhaustive && bound > 0) plan.optimality_gap = std::max(0.0, plan.step_s / bound - 1);
  for (const Familiar& other : familiar)
    plan.alternatives.push_back(Listed(*planning, other, *best));
  for (const Candidate& other : found.best) {
    if (plan.alternatives.size() >= 6) break;
    if (!other.fits() || other.layout == best->layout) continue;
    if (other.layout.config() == best->layout.config()) continue;
    const bool listed = std::ranges::any_of(plan.alternatives, [&](const PlanAlternative& a) {
      return a.config == other.layout.config();
    });
    if (!listed)
      plan.alternatives.push_back(Listed(*planning, {"runner-up", other, ""}, *best));
  }
  plan.warnings = Warnings(planning->costs, *best);
  return plan;
}

// --- A plan that was made before ---------------------------------------------------------------

// The nodes of each stage. kInvalidArgument: they are not all of the model's, once each, in an order
// in which data can flow.
absl::StatusOr<std::vector<std::vector<int>>> CheckStages(const PlanRequest& request,
                                                          const JobSchedule& schedule,
                                                          const Plan& plan) {
  const Profile& profile = request.profiles[0];
  const int count = static_cast<int>(profile.nodes.size());
  std::vector<int> stage_of(count, -1);
  std::vector<std::vector<int>> out;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    out.push_back(plan.stages[s].nodes);
    if (out.back().empty()) return InvalidArgument("plan: stage {} has no nodes", s);
    for (const int node : out.back()) {
      if (node < 0 || node >= count) {
        return InvalidArgument("plan: stage {} has node {}, the model has nodes 0 to {}", s, node,
                               count - 1);
      }
      if (stage_of[node] >= 0) {
        return InvalidArgument("plan: node {} ({}) is in stages {} and {}", node,
                               profile.nodes[node].name, stage_of[node], s);
      }
      stage_of[node] = static_cast<int>(s);
    }
  }
  for (int n = 0; n < count; ++n) {
    if (stage_of[n] < 0)
      return InvalidArgument("plan: node {} ({}) is in no stage", n, profile.nodes[n].name);
  }
  for (const ProfileTensor& tensor : profile.tensors) {
    if (tensor.gradient) continue;
    for (const int maker : tensor.early) {
      for (const int reader : tensor.late) {
        if (stage_of[maker] <= stage_of[reader]) continue;
        return InvalidArgument(
            "plan: node {} ({}) of stage {} reads what node {} ({}) of stage {} makes; data flows "
            "from earlier stages to later ones",
            reader, profile.nodes[reader].name, stage_of[reader], maker,
            profile.nodes[maker].name, stage_of[maker]);
      }
    }
  }
  for (const std::vector<int>& tie : profile.ties) {
    for (const int node : tie) {
      if (AllowsTies(schedule.policy) || stage_of[node] == stage_of[tie.front()]) continue;
      return InvalidArgument(
          "plan: nodes {} ({}) and {} ({}) read one parameter, but are in stages {} and {}, which "
          "schedule '{}' does not allow",
          tie.front(), profile.nodes[tie.front()].name, node, profile.nodes[node].name,
          stage_of[tie.front()], stage_of[node], request.schedule);
    }
  }
  return out;
}

// By device group of the plan. kInvalidArgument: a worker that is not there, or has two places.
absl::StatusOr<std::vector<std::vector<int>>> CheckWorkers(
    const Plan& plan, const std::map<std::string, int>& device_of) {
  std::vector<std::vector<int>> out(plan.devices());
  std::map<std::string, size_t> used;  // by worker: the first stage
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const size_t group = plan.device_of.empty() ? s : plan.device_of[s];
    if (group >= out.size()) return InvalidArgument("plan: stage {} is on device {}", s, group);
    const bool again = !out[group].empty();
    std::vector<int> devices;
    for (const std::string& worker : plan.stages[s].workers) {
      const auto found = device_of.find(worker);
      if (found == device_of.end()) {
        std::vector<std::string> known;
        for (const auto& [id, device] : device_of) known.push_back(id);
        return InvalidArgument("plan: stage {} is on worker '{}', which is not there; there are {}",
                               s, worker, fmt::join(known, ", "));
      }
      const auto [first, fresh] = used.try_emplace(worker, s);
      if (!fresh && !again) {
        return InvalidArgument("plan: worker '{}' is in stages {} and {}", worker, first->second, s);
      }
      devices.push_back(found->second);
    }
    if (devices.empty()) return InvalidArgument("plan: stage {} has no workers", s);
    if (again && devices != out[group]) {
      return InvalidArgument("plan: the stages of device {} name different workers", group);
    }
    out[group] = std::move(devices);
  }
  return out;
}

// Stages at whose beginning the readers of a parameter are parted.
std::vector<int> TiedCuts(const PlanRequest& request, const Plan& plan) {
  const std::vector<int> stage_of = plan.stage_of();
  std::set<int> out;
  for (const std::vector<int>& tie : request.profiles[0].ties)
    for (const int node : tie)
      if (stage_of[node] != stage_of[tie.front()]) out.insert(stage_of[node]);
  return {out.begin(), out.end()};
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  absl::StatusOr<Plan> plan = MakePlan(request, false);
  if (plan.ok()) return plan;
  absl::StatusOr<JobSchedule> schedule = CheckRequest(request);
  if (!schedule.ok() || !AllowsTies(schedule->policy) || request.rule != "measured") return plan;
  absl::StatusOr<Plan> parted = MakePlan(request, true);
  if (!parted.ok()) return plan;
  const std::vector<int> cuts = TiedCuts(request, *parted);
  if (!cuts.empty()) {
    parted->warnings.push_back(
        fmt::format("the readers of a parameter are parted before stage {}: each holds a copy, and "
                    "their gradients are summed before every update",
                    fmt::join(cuts, ", ")));
  }
  return parted;
}

absl::StatusOr<Plan> EvaluatePlan(const PlanRequest& request, const Plan& plan) {
  PlanRequest own = request;
  own.rule = "measured";
  own.schedule = plan.schedule;
  own.stages = 0;
  own.workers = 0;
  own.warmup.clear();
  own.max_replicas = 0;
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, CheckRequest(own));
  std::vector<int> everyone(own.topology.devices.size());
  std::map<std::string, int> device_of;
  for (size_t d = 0; d < everyone.size(); ++d) {
    everyone[d] = static_cast<int>(d);
    device_of[own.topology.devices[d].worker_id] = static_cast<int>(d);
  }
  Layout layout;
  layout.group_of = plan.device_of;
  if (!plan.own_warmup) layout.warmup = plan.warmup();
  PD_ASSIGN_OR_RETURN(const std::vector<std::vector<int>> stages,
                      CheckStages(own, schedule, plan));
  PD_ASSIGN_OR_RETURN(layout.devices, CheckWorkers(plan, device_of));
  const Planning planning(own, schedule, stages, everyone);
  for (int cut = 0; cut < planning.lattice.size(); ++cut) layout.cuts.push_back(cut);
  std::vector<bool> recompute;
  for (const PlanStage& stage : plan.stages) recompute.push_back(stage.recompute);
  const Candidate candidate = planning.costs.Measure(layout, recompute);
  if (!candidate.refused.ok()) return candidate.refused;
  if (!candidate.fits())
    return ResourceExhausted("the plan {} does not fit in memory: {}", layout.config(),
                             MemoryLack(planning.costs, candidate));
  Plan out = Describe(planning, candidate);
  out.warnings = Warnings(planning.costs, candidate);
  return out;
}

}  // namespace pipedream
