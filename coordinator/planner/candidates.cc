#include "coordinator/planner/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "coordinator/planner/check_request.h"
#include "coordinator/planner/placement.h"

namespace pipedream {
namespace {

// Measured links differ by noise; numbers of workers whose slowest links are this close are
// searched together, by the slower one.
constexpr double kAlike = 0.95;
constexpr double kSame = 1e-12;

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

absl::StatusOr<CandidateSource> CandidateSource::Create(const PlanRequest& request) {
  CandidateSource source(request);
  PD_ASSIGN_OR_RETURN(source.flush_, CheckRequest(request));
  source.order_ = OrderWorkers(request.topology);
  if (request.workers > 0) source.order_.resize(request.workers);
  source.bandwidths_ = SlowestBandwidths(request.topology, source.order_);
  PD_ASSIGN_OR_RETURN(source.profile_, SlowestProfile(request, source.order_));
  const int workers = source.workers();
  source.max_replicas_ = source.useful_replicas(
      request.max_replicas > 0 ? std::min(request.max_replicas, workers) : workers);
  PD_RETURN_IF_ERROR(source.FindCuts());
  return source;
}

int CandidateSource::useful_replicas(int replicas) const {
  return flush_ ? std::min(replicas, request_->microbatches) : replicas;
}

absl::Status CandidateSource::FindCuts() {
  const std::vector<NodeProfile>& nodes = profile_->nodes;
  double total = 0;
  for (const NodeProfile& node : nodes) total += node.compute_s();
  int cuts = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    cut_.push_back(n == 0 || nodes[n - 1].legal_cut);
    cuts += n > 0 && cut_[n];
    significant_.push_back(nodes[n].parameter_bytes > 0 ||
                           nodes[n].compute_s() > request_->negligible_share * total);
  }
  const int possible = cuts + 1;
  if (request_->stages > possible) {
    return InvalidArgument(
        "stages: {} stages asked for, but the model can be cut into at most {} ({} nodes, {} "
        "places to "
        "cut)",
        request_->stages, possible, nodes.size(), cuts);
  }
  if (request_->stages > workers()) {
    return InvalidArgument("stages: {} stages need as many workers, {} may be used",
                           request_->stages, workers());
  }
  const int sensible = SignificantStages(cut_, significant_);
  if (sensible == 0 || request_->stages > sensible) significant_.assign(nodes.size(), true);
  return absl::OkStatus();
}

CostModel CandidateSource::Costs(int stages) const {
  ScheduleCosts schedule;
  schedule.flush = flush_;
  schedule.forwards_first = request_->schedule == "gpipe";
  schedule.microbatches = request_->microbatches;
  schedule.channel_slots = request_->channel_slots;
  if (static_cast<size_t>(stages) == request_->warmup.size()) schedule.warmup = request_->warmup;
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
  for (const int r : replicas) out.workers += r;
  out.config = fmt::format("{}", fmt::join(replicas, "-"));
  out.bandwidth = bandwidths_[out.workers - 1];
  out.available_bytes = MemoryOf(out.workers);
  out.step_s = costs.StepSeconds(partition, out.bandwidth);
  int later = out.workers;
  for (int s = 0; s < stages; ++s) {
    const NodeSums sums = costs.Sums(partition[s]);
    out.bytes += costs.BytesMoved(sums, partition[s]);
    out.warmup.push_back(costs.Warmup(s, replicas[s], later));
    out.memory.push_back(costs.Memory(sums, partition[s], out.warmup.back()));
    if (out.memory.back().total() > out.needed_bytes) {
      out.needed_bytes = out.memory.back().total();
      out.fullest_stage = s;
    }
    later -= replicas[s];
  }
  out.partition = std::move(partition);
  return out;
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

std::optional<Candidate> CandidateSource::Search(int max_replicas, int min_workers) const {
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
