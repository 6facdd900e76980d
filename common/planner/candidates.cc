#include "common/planner/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/planner/check_request.h"
#include "common/planner/placement.h"
#include "common/planner/play.h"
#include "common/planner/straight.h"

namespace pipedream {
namespace {

// Measured links differ by noise; numbers of workers whose slowest links are this close are
// searched together, by the slower one.
constexpr double kAlike = 0.95;
constexpr double kSame = 1e-12;
// From the fastest to the smallest division: how many there are after the fastest.
constexpr int kAttempts = 5;

// Stages that are possible when every one must hold a significant node.
int SignificantStages(const std::vector<bool>& cut, const std::vector<bool>& significant) {
  int stages = 0;
  bool open = false;  // the current stage holds one
  for (size_t n = 0; n < cut.size(); ++n) {
    if (cut[n] && open) {
      ++stages;
      open = false;
    }
    open = open || significant[n];
  }
  return stages + (open ? 1 : 0);
}

}  // namespace

bool Better(const Candidate& a, const Candidate& b) {
  if (a.step_s < b.step_s * (1 - kSame)) return true;
  if (b.step_s < a.step_s * (1 - kSame)) return false;
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  if (a.needed_bytes != b.needed_bytes) return a.needed_bytes < b.needed_bytes;
  if (a.workers != b.workers) return a.workers < b.workers;
  if (a.partition.size() != b.partition.size()) return a.partition.size() < b.partition.size();
  for (size_t s = 0; s < a.partition.size(); ++s) {
    if (a.partition[s].end != b.partition[s].end) return a.partition[s].end < b.partition[s].end;
  }
  return false;
}

bool AllowsTies(WeightPolicy policy) {
  return IsSynchronous(policy) || policy == WeightPolicy::kDoubleBuffer;
}

absl::StatusOr<CandidateSource> CandidateSource::Create(const PlanRequest& request,
                                                        bool part_ties) {
  CandidateSource source(request);
  PD_ASSIGN_OR_RETURN(source.schedule_, CheckRequest(request));
  const JobSchedule& schedule = source.schedule_;
  source.by_minibatch_ = !StepsByRound(schedule.policy);
  source.drains_ = IsSynchronous(schedule.policy);
  source.by_formula_ =
      schedule.info != nullptr && (request.schedule == "pipedream" || request.schedule == "1f1b" ||
                                   request.schedule == "gpipe");
  source.order_ = OrderWorkers(request.topology);
  if (request.workers > 0) source.order_.resize(request.workers);
  source.bandwidths_ = SlowestBandwidths(request.topology, source.order_);
  PD_ASSIGN_OR_RETURN(source.profile_, SlowestProfile(request, source.order_));
  const int workers = source.workers();
  source.max_replicas_ = source.useful_replicas(
      request.max_replicas > 0 ? std::min(request.max_replicas, workers) : workers);
  PD_RETURN_IF_ERROR(source.FindCuts(part_ties));
  return source;
}

int CandidateSource::useful_replicas(int replicas) const {
  return by_minibatch_ ? std::min(replicas, request_->microbatches) : replicas;
}

bool CandidateSource::free_layout() const {
  return schedule_.table == nullptr && schedule_.info->place == nullptr &&
         schedule_.info->name != "data_parallel";
}

absl::Status CandidateSource::FindCuts(bool part_ties) {
  const std::vector<NodeProfile>& nodes = profile_->nodes;
  double total = 0;
  for (const NodeProfile& node : nodes) total += node.compute_s();
  int cuts = 0, ties = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    cut_.push_back(n == 0 || part_ties || nodes[n - 1].legal_cut);
    cuts += n > 0 && cut_[n];
    ties += n > 0 && !nodes[n - 1].legal_cut;
    significant_.push_back(nodes[n].parameter_bytes > 0 ||
                           nodes[n].compute_s() > request_->negligible_share * total);
  }
  const int possible = cuts + 1;
  const int wanted =
      schedule_.table != nullptr ? schedule_.table->shape.stages() : request_->stages;
  if (std::max(wanted, schedule_.chunks) > possible) {
    std::string remedy;
    if (ties > 0 && !part_ties && !AllowsTies(schedule_.policy)) {
      remedy = fmt::format(
          "; {} more would part the readers of a parameter, which synchronous schedules and 2bw "
          "allow, '{}' does not",
          ties, request_->schedule);
    }
    return InvalidArgument(
        "stages: {} stages asked for, but the model can be cut into at most {} ({} nodes, {} "
        "places to cut{})",
        std::max(wanted, schedule_.chunks), possible, nodes.size(), cuts, remedy);
  }
  const int devices = request_->stages / schedule_.chunks;
  if (schedule_.table == nullptr && devices > workers()) {
    if (schedule_.chunks > 1) {
      return InvalidArgument(
          "stages: {} stages, {} on each device, need {} workers, {} may be used", request_->stages,
          schedule_.chunks, devices, workers());
    }
    return InvalidArgument("stages: {} stages need as many workers, {} may be used",
                           request_->stages, workers());
  }
  const int sensible = SignificantStages(cut_, significant_);
  if (sensible < std::max({1, wanted, schedule_.chunks})) significant_.assign(nodes.size(), true);
  return absl::OkStatus();
}

CostModel CandidateSource::Costs(int stages) const {
  ScheduleCosts schedule;
  schedule.by_minibatch = by_minibatch_;
  schedule.drains = drains_;
  schedule.forwards_first = by_formula_ && request_->schedule == "gpipe";
  schedule.microbatches = request_->microbatches;
  schedule.channel_slots = request_->channel_slots;
  if (static_cast<size_t>(stages) == request_->warmup.size()) schedule.warmup = request_->warmup;
  schedule.recompute = request_->recompute;
  schedule.checkpoints.resize(request_->recompute ? profile_->nodes.size() : 0);
  for (const int node : request_->checkpoints)
    if (node >= 0 && static_cast<size_t>(node) < schedule.checkpoints.size())
      schedule.checkpoints[node] = true;
  return CostModel(*profile_, std::move(schedule));
}

int64_t CandidateSource::MemoryOf(int workers) const {
  int64_t least = 0;
  for (int k = 0; k < workers; ++k) {
    const int64_t bytes = request_->topology.devices[order_[k]].memory_bytes;
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
  }
  return least;
}

Candidate CandidateSource::Measure(Partition partition) const {
  Candidate out;
  const int stages = static_cast<int>(partition.size());
  const CostModel costs = Costs(stages);
  std::vector<int> replicas;
  for (const StagePart& part : partition) replicas.push_back(part.replicas);
  ScheduleShape layout;
  layout.replicas = replicas;
  layout.device_of = schedule_.device_of(stages / schedule_.chunks);
  if (layout.devices() == stages && schedule_.table == nullptr) layout.device_of.clear();
  out.device_of = layout.device_of;
  out.workers = static_cast<int>(WorkersOf(layout).size());
  out.config = fmt::format("{}", fmt::join(replicas, "-"));
  if (!out.device_of.empty()) out.config += fmt::format(" on {} devices", layout.devices());
  out.bandwidth = bandwidths_[out.workers - 1];
  out.available_bytes = MemoryOf(out.workers);
  out.step_s = costs.StepSeconds(partition, out.bandwidth);
  out.partition = std::move(partition);
  std::vector<StageHoldings> holdings(stages);
  if (by_formula_) {
    int later = out.workers;
    for (int s = 0; s < stages; ++s) {
      out.warmup.push_back(costs.Warmup(s, replicas[s], later));
      holdings[s] = costs.Holdings(out.partition[s], out.warmup.back());
      later -= replicas[s];
    }
  } else {
    Play(costs, layout, &out, &holdings);
    if (!out.refused.ok()) return out;
  }
  std::vector<int64_t> used(layout.devices());
  for (int s = 0; s < stages; ++s) {
    const NodeSums sums = costs.Sums(out.partition[s]);
    out.bytes += costs.BytesMoved(sums, out.partition[s]);
    out.versions.push_back(holdings[s].versions);
    out.memory.push_back(costs.Memory(sums, out.partition[s], holdings[s]));
    int64_t& bytes = used[DeviceOf(layout, StageId(s))];
    bytes += out.memory.back().total();
    if (bytes > out.needed_bytes) {
      out.needed_bytes = bytes;
      out.fullest_stage = s;
    }
  }
  return out;
}

void CandidateSource::Play(const CostModel& costs, const ScheduleShape& layout,
                           Candidate* candidate, std::vector<StageHoldings>* holdings) const {
  SimulateOptions options;
  for (const StagePart& part : candidate->partition) {
    const NodeSums sums = costs.Sums(part);
    options.stages.push_back(
        {.forward_s = sums.forward_s,
         .backward_s = sums.compute_s - sums.forward_s,
         .backward_input_s = sums.compute_s - sums.forward_s - sums.weight_gradient_s,
         .step_s = sums.optimizer_s,
         .reduce_s = costs.SyncSeconds(sums, part.replicas, candidate->bandwidth)});
    if (part.begin == 0) continue;
    const NodeProfile& before = profile_->nodes[part.begin - 1];
    options.links.push_back(
        {.bandwidth_bytes_per_s = std::isfinite(candidate->bandwidth) ? candidate->bandwidth : 0,
         .activation_bytes = static_cast<double>(before.cut_forward_bytes),
         .gradient_bytes = static_cast<double>(before.cut_gradient_bytes)});
  }
  absl::StatusOr<Played> played = pipedream::Play(*request_, schedule_, layout, options);
  if (!played.ok()) {
    candidate->refused = played.status();
    return;
  }
  candidate->warmup = played->warmup;
  // An asynchronous schedule is played from its start, which takes longer than what follows.
  if (drains_ || schedule_.table != nullptr) candidate->step_s = played->step_s;
  for (size_t s = 0; s < holdings->size(); ++s) {
    const StageNeeds& needs = played->needs[s];
    (*holdings)[s] = {needs.slots, needs.versions, needs.gradients, needs.undo};
  }
}

std::vector<CandidateSource::WorkerRange> CandidateSource::Ranges(int min_workers) const {
  std::vector<WorkerRange> out;
  const int all = workers();
  if (request_->use_all_workers) {
    if (min_workers <= all) out.push_back({all, all});
    return out;
  }
  for (int w = std::max(min_workers, 1); w <= all; ++w) {
    const bool alike = !out.empty() &&
                       bandwidths_[w - 1] >= kAlike * bandwidths_[out.back().low - 1] &&
                       MemoryOf(w) == MemoryOf(out.back().low);
    if (alike) {
      out.back().high = w;
    } else {
      out.push_back({w, w});
    }
  }
  return out;
}

SearchLimits CandidateSource::Limits(const WorkerRange& range, int max_replicas) const {
  SearchLimits limits;
  limits.min_workers = range.low;
  limits.max_workers = range.high;
  limits.stages = request_->stages;
  limits.max_replicas = max_replicas;
  limits.bandwidth = bandwidths_[range.high - 1];
  limits.memory_bytes = MemoryOf(range.high);
  limits.cut = cut_;
  limits.significant = significant_;
  return limits;
}

// Replicas of every stage, for each layout that the schedule leaves to choose from.
std::vector<std::vector<int>> CandidateSource::FixedReplicas(const WorkerRange& range) const {
  if (schedule_.table != nullptr) return {schedule_.table->shape.replicas};
  if (schedule_.info->place == nullptr) return {{max_replicas_}};  // data_parallel
  std::vector<std::vector<int>> out;
  for (int devices = range.low; devices <= range.high; ++devices) {
    const int stages = devices * schedule_.chunks;
    if (request_->stages == 0 || request_->stages == stages) out.emplace_back(stages, 1);
  }
  return out;
}

std::optional<Partition> CandidateSource::Divide(const std::vector<int>& replicas, double bandwidth,
                                                 double memory_weight) const {
  const CostModel costs = Costs(static_cast<int>(replicas.size()));
  // Shares of the whole model, so that time and memory can be weighed against each other.
  const NodeSums whole = costs.Sums({0, costs.nodes(), 1});
  const auto bytes = [&](const NodeSums& sums) {
    return static_cast<double>(sums.parameter_bytes * (profile_->optimizer_state_tensors + 2) +
                               sums.saved_bytes + sums.again_bytes);
  };
  const double all_s = std::max(whole.compute_s, 1e-12), all_bytes = std::max(bytes(whole), 1.0);
  return LeastLargest({replicas, cut_, significant_}, [&](int, const StagePart& part) {
    const NodeSums sums = costs.Sums(part);
    const double time = costs.Times(sums, part, bandwidth).bottleneck_s / all_s;
    return (1 - memory_weight) * time + memory_weight * bytes(sums) / all_bytes;
  });
}

std::vector<CandidateSource::Family> CandidateSource::Families(const WorkerRange& range,
                                                               int max_replicas) const {
  std::vector<Family> out;
  if (!free_layout()) {
    for (std::vector<int>& replicas : FixedReplicas(range)) {
      out.push_back([this, replicas = std::move(replicas), range](int attempt) {
        return Divide(replicas, bandwidths_[range.high - 1],
                      static_cast<double>(attempt) / kAttempts);
      });
    }
    return out;
  }
  SearchLimits limits = Limits(range, max_replicas);
  const int64_t memory = std::exchange(limits.memory_bytes, 0);
  for (Partition& fastest : PartitionSearch(Costs(request_->stages), limits).FastestOfEach()) {
    out.push_back([this, fastest = std::move(fastest), limits,
                   memory](int attempt) mutable -> std::optional<Partition> {
      if (attempt == 0) return fastest;
      if (drains_) limits.stages = static_cast<int>(fastest.size());
      const CostModel costs = Costs(limits.stages);
      if (attempt == kAttempts) return PartitionSearch(costs, limits).Smallest();
      limits.memory_bytes = memory * (kAttempts - attempt) / kAttempts;
      return PartitionSearch(costs, limits).Fastest();
    });
  }
  return out;
}

std::optional<Candidate> CandidateSource::SearchFamilies(int max_replicas, int min_workers,
                                                         bool smallest) const {
  std::optional<Candidate> best;
  const auto lacks = [](const Candidate& c) { return c.needed_bytes - c.available_bytes; };
  std::vector<WorkerRange> ranges = Ranges(min_workers);
  if (schedule_.table != nullptr || (!free_layout() && schedule_.info->place == nullptr)) {
    const int needed = schedule_.table != nullptr
                           ? static_cast<int>(WorkersOf(schedule_.table->shape).size())
                           : max_replicas_;
    ranges = {{needed, needed}};
  }
  for (const WorkerRange& range : ranges) {
    for (const Family& family : Families(range, max_replicas)) {
      for (int attempt = smallest ? kAttempts : 0; attempt <= kAttempts; ++attempt) {
        std::optional<Partition> partition = family(attempt);
        if (!partition) continue;
        Candidate candidate = Measure(*std::move(partition));
        if (smallest) {
          const bool better = !best || (!best->refused.ok() && candidate.refused.ok()) ||
                              (candidate.refused.ok() && lacks(candidate) < lacks(*best));
          if (better) best = std::move(candidate);
        } else if (candidate.fits()) {
          if (!best || Better(candidate, *best)) best = std::move(candidate);
          break;
        } else if (!candidate.refused.ok()) {
          break;
        }
      }
    }
  }
  return best;
}

std::optional<Candidate> CandidateSource::Search(int max_replicas, int min_workers) const {
  if (!by_formula_) return SearchFamilies(max_replicas, min_workers, false);
  const CostModel costs = Costs(request_->stages);
  std::optional<Candidate> best;
  for (const WorkerRange& range : Ranges(min_workers)) {
    std::optional<Partition> found = PartitionSearch(costs, Limits(range, max_replicas)).Fastest();
    if (!found) continue;
    Candidate candidate = Measure(*std::move(found));
    if (!best || Better(candidate, *best)) best = std::move(candidate);
  }
  return best;
}

std::optional<Candidate> CandidateSource::Smallest() const {
  if (!by_formula_) return SearchFamilies(max_replicas_, 1, true);
  const CostModel costs = Costs(request_->stages);
  std::optional<Candidate> best;
  const auto lacks = [](const Candidate& c) { return c.needed_bytes - c.available_bytes; };
  for (const WorkerRange& range : Ranges(1)) {
    std::optional<Partition> found =
        PartitionSearch(costs, Limits(range, max_replicas_)).Smallest();
    if (!found) continue;
    Candidate candidate = Measure(*std::move(found));
    if (!best || lacks(candidate) < lacks(*best)) best = std::move(candidate);
  }
  return best;
}

}  // namespace pipedream
