#include "common/planner/search.h"

#include <algorithm>
#include <tuple>

#include "common/base/status.h"

namespace pipedream {
namespace {

// Sums of doubles in another order differ in their last bits; such differences decide nothing.
constexpr double kSame = 1e-12;

}  // namespace

bool PartitionSearch::Score::operator<(const Score& other) const {
  return std::tie(first, second, stages) < std::tie(other.first, other.second, other.stages);
}

// cells[layer][node][workers]: the best division of nodes [node, end) onto exactly that many
// workers, in exactly `layer` stages where stages are counted (else layer is 0).
class PartitionSearch::Table {
 public:
  Table(int layers, int nodes, int workers)
      : nodes_(nodes),
        workers_(workers),
        cells_(static_cast<size_t>(layers + 1) * (nodes + 1) * (workers + 1)) {}
  Cell& at(int layer, int node, int workers) {
    return cells_[(static_cast<size_t>(layer) * (nodes_ + 1) + node) * (workers_ + 1) + workers];
  }
  const Cell& at(int layer, int node, int workers) const {
    return const_cast<Table*>(this)->at(layer, node, workers);
  }

 private:
  const int nodes_;
  const int workers_;
  std::vector<Cell> cells_;
};

PartitionSearch::PartitionSearch(const CostModel& costs, SearchLimits limits)
    : costs_(costs), limits_(std::move(limits)) {}

int PartitionSearch::Layers() const {
  if (limits_.stages > 0) return limits_.stages;
  // Asynchronous time does not depend on the number of stages, a flush's bubble does.
  if (!costs_.schedule().drains) return 0;
  const int most = std::min(limits_.max_workers, costs_.nodes());
  return limits_.max_stages > 0 ? std::min(most, limits_.max_stages) : most;
}

void PartitionSearch::Extend(Goal goal, double cap, int begin, int end, const NodeSums& sums,
                             Table* table) const {
  const int layers = Layers();
  const int most = std::min(limits_.max_replicas, limits_.max_workers);
  for (int replicas = 1; replicas <= most; ++replicas) {
    const StagePart part{begin, end, replicas};
    const double time = costs_.Times(sums, part, limits_.bandwidth).bottleneck_s;
    if (goal == Goal::kBytes && time > cap * (1 + kSame)) continue;
    const double bytes = costs_.BytesMoved(sums, part);
    for (int workers = replicas; workers <= limits_.max_workers; ++workers) {
      for (int layer = layers == 0 ? 0 : 1; layer <= layers; ++layer) {
        const int rest_layer = layers == 0 ? 0 : layer - 1;
        const Cell& rest = table->at(rest_layer, end, workers - replicas);
        if (!rest.feasible) continue;
        Score score{time, 0, rest.score.stages + 1};
        if (goal == Goal::kTime) {
          score.first = std::max(score.first, rest.score.first);
          if (limits_.memory_bytes == 0 && !(score < table->at(layer, begin, workers).score) &&
              table->at(layer, begin, workers).feasible)
            continue;
        }
        const int stage = limits_.stages > 0 ? limits_.stages - layer : 0;
        const int warmup = costs_.Warmup(stage, replicas, workers);
        const int64_t memory = costs_.Memory(sums, part, costs_.Holdings(part, warmup)).total();
        if (goal != Goal::kMemory && limits_.memory_bytes > 0 && memory > limits_.memory_bytes)
          continue;
        if (goal == Goal::kBytes) {
          score.first = bytes + rest.score.first;
          score.second = std::max(static_cast<double>(memory), rest.score.second);
        } else if (goal == Goal::kMemory) {
          score.first = std::max(static_cast<double>(memory), rest.score.first);
          score.second = std::max(time, rest.score.second);
        }
        Cell& cell = table->at(layer, begin, workers);
        if (!cell.feasible || score < cell.score) cell = {score, end, replicas, true};
      }
    }
  }
}

PartitionSearch::Table PartitionSearch::Run(Goal goal, double cap) const {
  const int nodes = costs_.nodes();
  Table table(Layers(), nodes, limits_.max_workers);
  table.at(0, nodes, 0).feasible = true;
  for (int begin = nodes - 1; begin >= 0; --begin) {
    if (!limits_.cut[begin]) continue;
    NodeSums sums;
    bool significant = false;
    for (int end = begin + 1; end <= nodes; ++end) {
      costs_.AddNode(end - 1, &sums);
      significant = significant || limits_.significant[end - 1];
      if (significant && (end == nodes || limits_.cut[end])) {
        Extend(goal, cap, begin, end, sums, &table);
      }
    }
  }
  return table;
}

std::optional<int> PartitionSearch::BestWorkers(const Table& table, int layer) const {
  std::optional<int> best;
  for (int workers = limits_.min_workers; workers <= limits_.max_workers; ++workers) {
    const Cell& cell = table.at(layer, 0, workers);
    if (!cell.feasible) continue;
    if (!best || cell.score < table.at(layer, 0, *best).score) best = workers;
  }
  return best;
}

// With counted stages: the number of stages whose minibatch is shortest.
std::optional<int> PartitionSearch::BestLayer(const Table& table) const {
  const int layers = Layers();
  std::optional<int> best;
  double best_step = 0;
  for (int layer = limits_.stages > 0 ? layers : std::min(layers, 1); layer <= layers; ++layer) {
    const std::optional<int> workers = BestWorkers(table, layer);
    if (!workers) continue;
    const double step = costs_.StepSeconds(Trace(table, *workers, layer), limits_.bandwidth);
    if (!best || step < best_step * (1 - kSame)) {
      best = layer;
      best_step = step;
    }
  }
  return best;
}

Partition PartitionSearch::Trace(const Table& table, int workers, int layer) const {
  Partition out;
  for (int begin = 0; begin < costs_.nodes();) {
    const Cell& cell = table.at(layer, begin, workers);
    PIPEDREAM_CHECK(cell.feasible);
    out.push_back({begin, cell.end, cell.replicas});
    begin = cell.end;
    workers -= cell.replicas;
    if (layer > 0) --layer;
  }
  return out;
}

std::optional<Partition> PartitionSearch::Fastest() const {
  const Table times = Run(Goal::kTime, 0);
  const std::optional<int> layer = BestLayer(times);
  if (!layer) return std::nullopt;
  const double cap = times.at(*layer, 0, *BestWorkers(times, *layer)).score.first;
  // Among all divisions as fast, the one that moves least: stages off the critical one need not be
  // as short as they can be.
  const Table bytes = Run(Goal::kBytes, cap);
  return Trace(bytes, *BestWorkers(bytes, *layer), *layer);
}

std::vector<Partition> PartitionSearch::FastestOfEach() const {
  const Table times = Run(Goal::kTime, 0);
  const int layers = Layers();
  std::vector<Partition> out;
  for (int layer = limits_.stages > 0 ? layers : std::min(layers, 1); layer <= layers; ++layer) {
    const std::optional<int> workers = BestWorkers(times, layer);
    if (workers) out.push_back(Trace(times, *workers, layer));
  }
  return out;
}

std::optional<Partition> PartitionSearch::Smallest() const {
  const Table table = Run(Goal::kMemory, 0);
  const int layers = Layers();
  std::optional<Partition> best;
  double least = 0;
  for (int layer = limits_.stages > 0 ? layers : std::min(layers, 1); layer <= layers; ++layer) {
    const std::optional<int> workers = BestWorkers(table, layer);
    if (!workers) continue;
    const double memory = table.at(layer, 0, *workers).score.first;
    if (!best || memory < least) {
      best = Trace(table, *workers, layer);
      least = memory;
    }
  }
  return best;
}

}  // namespace pipedream
