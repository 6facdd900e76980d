#include "common/planner/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "common/planner/play.h"

namespace pipedream {
namespace {

constexpr double kSame = 1e-9;
// What a deeper pipeline must bring at least.
constexpr double kWorthDeepening = 0.02;

bool HasNode(const std::vector<int>& nodes, const std::vector<int>& sorted) {
  return std::ranges::any_of(
      nodes, [&](int node) { return std::ranges::binary_search(sorted, node); });
}

}  // namespace

int Layout::workers() const {
  size_t count = 0;
  for (const std::vector<int>& group : devices) count += group.size();
  return static_cast<int>(count);
}

std::string Layout::config() const {
  std::vector<int> counts;
  for (int s = 0; s < stages(); ++s) counts.push_back(replicas(s));
  std::string text = fmt::format("{}", fmt::join(counts, "-"));
  if (!group_of.empty())
    text += fmt::format(" on {} device{}", devices.size(), devices.size() == 1 ? "" : "s");
  return text;
}

bool Better(const Candidate& a, const Candidate& b) {
  if (a.step_s < b.step_s * (1 - kSame)) return true;
  if (b.step_s < a.step_s * (1 - kSame)) return false;
  return std::tuple(a.bytes, a.needed_bytes, a.layout.workers(), a.layout.stages(), a.layout) <
         std::tuple(b.bytes, b.needed_bytes, b.layout.workers(), b.layout.stages(), b.layout);
}

LayoutCosts::LayoutCosts(const PlanRequest& request, const JobSchedule& schedule,
                         const CutLattice& lattice, const Cluster& cluster)
    : request_(request), schedule_(schedule), lattice_(lattice), cluster_(cluster) {
  by_minibatch_ = !StepsByRound(schedule.policy);
  drains_ = IsSynchronous(schedule.policy);
  by_formula_ = schedule.info != nullptr &&
                (schedule.info->name == "pipedream" || schedule.info->name == "1f1b" ||
                 schedule.info->name == "gpipe");
  checkpoint_.resize(profile().nodes.size());
  for (const int node : request.checkpoints)
    if (node >= 0 && static_cast<size_t>(node) < checkpoint_.size()) checkpoint_[node] = true;
  for (const Profile& profile : request.profiles) {
    std::vector<Sums>& sums = sums_.emplace_back();
    for (int cut = 0; cut < lattice.size(); ++cut) {
      Sums& sum = sums.emplace_back();
      for (const int n : lattice.NodesBetween(0, cut)) {
        const NodeProfile& node = profile.nodes[n];
        sum.forward_s += node.forward_s;
        if (!checkpoint_[n]) sum.again_s += node.forward_s;
        sum.input_gradient_s += node.input_gradient_s;
        sum.weight_gradient_s += node.weight_gradient_s;
        sum.optimizer_s += node.optimizer_s;
      }
    }
  }
  for (int cut = 0; cut < lattice.size(); ++cut) {
    int64_t bytes = 0;
    for (const int n : lattice.NodesBetween(0, cut)) bytes += profile().nodes[n].parameter_bytes;
    parameter_bytes_.push_back(bytes);
  }
}

const LayoutCosts::StageFacts& LayoutCosts::FactsOf(int from, int to) const {
  std::unique_ptr<StageFacts>& facts = facts_[{from, to}];
  if (facts != nullptr) return *facts;
  facts = std::make_unique<StageFacts>();
  facts->nodes = lattice_.NodesBetween(from, to);
  int64_t again_bytes = 0;
  for (const int n : facts->nodes) {
    const NodeProfile& node = profile().nodes[n];
    facts->parameter_bytes += node.parameter_bytes;
    facts->state_bytes += node.state_bytes;
    facts->constant_bytes += node.constant_bytes;
    facts->kept_bytes += node.saved_bytes;
    if (checkpoint_[n]) {
      facts->checkpoint_bytes += std::max(node.saved_bytes, node.output_bytes);
    } else {
      again_bytes += node.saved_bytes;
    }
    facts->workspace_bytes = std::max(facts->workspace_bytes, node.workspace_bytes);
  }
  for (const ProfileTensor& tensor : profile().tensors) {
    if (tensor.gradient) continue;
    const bool made_here = !tensor.early.empty() && HasNode(tensor.early, facts->nodes);
    const bool enters = !made_here && from > 0 && HasNode(tensor.late, facts->nodes);
    const bool kept = HasNode(tensor.kept_by, facts->nodes);
    if (kept) facts->kept_bytes += tensor.kept_bytes;
    if (enters || (kept && checkpoint_[tensor.early.front()])) {
      facts->checkpoint_bytes += std::max(tensor.kept_bytes, tensor.bytes);
    } else if (kept) {
      again_bytes += tensor.kept_bytes;
    }
  }
  facts->again_bytes = again_bytes;
  return *facts;
}

StageWork LayoutCosts::Work(int from, int to, int device, bool recompute) const {
  const std::vector<Sums>& sums = sums_[cluster_.profile(device)];
  const double slowness = 1 / cluster_.speed(device);
  const double forward = sums[to].forward_s - sums[from].forward_s;
  const double input = sums[to].input_gradient_s - sums[from].input_gradient_s;
  const double weight = sums[to].weight_gradient_s - sums[from].weight_gradient_s;
  const double again = recompute ? sums[to].again_s - sums[from].again_s : 0;
  StageWork work;
  work.forward_s = std::max(0.0, forward * slowness);
  work.backward_input_s = std::max(0.0, (input + again) * slowness);
  work.backward_s = work.backward_input_s + std::max(0.0, weight * slowness);
  work.step_s = std::max(0.0, (sums[to].optimizer_s - sums[from].optimizer_s) * slowness);
  return work;
}

double LayoutCosts::ComputeSeconds(int from, int to, int device) const {
  const StageWork work = Work(from, to, device, request_.recompute);
  return work.forward_s + work.backward_s + work.step_s;
}

int64_t LayoutCosts::ParameterBytes(int from, int to) const {
  return parameter_bytes_[to] - parameter_bytes_[from];
}

double LayoutCosts::OwnMicrobatches(int replicas) const {
  if (!by_minibatch_) return 1.0 / replicas;
  return (request_.microbatches + replicas - 1) / replicas;
}

int LayoutCosts::Warmup(const Layout& layout, int stage) const {
  const int replicas = layout.replicas(stage);
  const int own = (request_.microbatches + replicas - 1) / replicas;
  if (by_formula_ && schedule_.info->name == "gpipe") return own;
  int warmup = 0;
  if (!layout.warmup.empty()) {
    warmup = layout.warmup[stage];
  } else {
    int workers = 0;
    for (int s = stage; s < layout.stages(); ++s) workers += layout.replicas(s);
    warmup = (workers - 1) / replicas;
  }
  return by_minibatch_ ? std::min(warmup, own) : warmup;
}

double LayoutCosts::SyncSeconds(const Layout& layout, int stage) const {
  const std::vector<int>& devices = layout.on(stage);
  const double r = static_cast<double>(devices.size());
  if (devices.size() < 2) return 0;
  const auto bytes =
      static_cast<double>(ParameterBytes(layout.cuts[stage], layout.cuts[stage + 1]));
  return 2 * (r - 1) / r * bytes * cluster_.RingSecondsPerByte(devices) +
         2 * (r - 1) * cluster_.RingLatency(devices);
}

std::vector<LayoutCosts::Edge> LayoutCosts::Edges(const Layout& layout) const {
  const int stages = layout.stages();
  if (stages == 1) return {};
  std::vector<int> stage_of(lattice_.nodes());
  for (int s = 0; s < stages; ++s)
    for (const int node : FactsOf(layout.cuts[s], layout.cuts[s + 1]).nodes) stage_of[node] = s;
  std::map<std::pair<int, int>, Edge> edges;
  std::vector<int> early, late;
  const auto stages_of = [&](const std::vector<int>& nodes, std::vector<int>* out) {
    out->clear();
    for (const int node : nodes) out->push_back(stage_of[node]);
    if (out->empty()) out->push_back(0);  // a network input
    if (out->size() == 1) return;
    std::ranges::sort(*out);
    out->erase(std::unique(out->begin(), out->end()), out->end());
  };
  for (const ProfileTensor& tensor : profile().tensors) {
    stages_of(tensor.early, &early);
    stages_of(tensor.late, &late);
    for (const int from : early) {
      for (const int to : late) {
        if (from >= to) continue;
        Edge& edge = edges[{from, to}];
        edge.from = from;
        edge.to = to;
        (tensor.gradient ? edge.gradient_bytes : edge.forward_bytes) += tensor.bytes;
        ++(tensor.gradient ? edge.gradient_items : edge.forward_items);
      }
    }
  }
  std::vector<Edge> out;
  for (const auto& [key, edge] : edges) out.push_back(edge);
  return out;
}

Load LayoutCosts::Bottleneck(const Layout& layout, const std::vector<bool>& recompute) const {
  Load load;
  const int stages = layout.stages();
  const auto raise = [&](double seconds, Load::Kind kind, int stage) {
    if (seconds <= load.seconds) return;
    load.seconds = seconds;
    load.kind = kind;
    load.stage = stage;
  };
  // A device that has several stages works on all of them.
  std::vector<double> compute(cluster_.size());
  for (int s = 0; s < stages; ++s) {
    const double own = OwnMicrobatches(layout.replicas(s));
    const double updates = by_minibatch_ ? 1 : own;
    for (const int device : layout.on(s)) {
      const StageWork work =
          Work(layout.cuts[s], layout.cuts[s + 1], device, request_.recompute || recompute[s]);
      compute[device] += own * (work.forward_s + work.backward_s) + updates * work.step_s;
      raise(compute[device], Load::Kind::kCompute, s);
      load.longest_compute_s = std::max(load.longest_compute_s, compute[device]);
    }
  }
  const int n = cluster_.size();
  std::vector<double> ways(static_cast<size_t>(n) * n);
  std::vector<double> out(cluster_.ports().size()), in(cluster_.ports().size());
  const auto carry = [&](int a, int b, double bytes, Load::Kind kind, int stage) {
    if (a == b || bytes <= 0) return;
    const PathCosts& path = cluster_.path(a, b);
    raise(ways[static_cast<size_t>(a) * n + b] += bytes / path.bandwidth_bytes_per_s, kind, stage);
    if (path.out_port >= 0)
      raise(out[path.out_port] += bytes / cluster_.ports()[path.out_port], kind, stage);
    if (path.in_port >= 0)
      raise(in[path.in_port] += bytes / cluster_.ports()[path.in_port], kind, stage);
  };
  for (int s = 0; s < stages; ++s) {
    const std::vector<int>& devices = layout.on(s);
    const int r = static_cast<int>(devices.size());
    if (r < 2) continue;
    const double reductions = by_minibatch_ ? 1 : 1.0 / r;
    const double bytes = reductions * 2 * (r - 1) / r *
                         static_cast<double>(ParameterBytes(layout.cuts[s], layout.cuts[s + 1]));
    for (int k = 0; k < r; ++k)
      carry(devices[k], devices[(k + 1) % r], bytes, Load::Kind::kSync, s);
  }
  for (const Edge& edge : Edges(layout)) {
    const std::vector<int>& from = layout.on(edge.from);
    const std::vector<int>& to = layout.on(edge.to);
    const int a = static_cast<int>(from.size()), b = static_cast<int>(to.size());
    const int round = std::lcm(a, b);  // microbatches until the same two meet again
    const double share = static_cast<double>(request_.microbatches) / round;
    for (int i = 0; i < round; ++i) {
      carry(from[i % a], to[i % b], share * static_cast<double>(edge.forward_bytes),
            Load::Kind::kTransfer, edge.to);
      carry(to[i % b], from[i % a], share * static_cast<double>(edge.gradient_bytes),
            Load::Kind::kTransfer, edge.to);
    }
  }
  return load;
}

double LayoutCosts::StepSeconds(const Layout& layout, const Load& load) const {
  if (schedule_.info != nullptr && schedule_.info->name == "sequential") {
    double sum = 0;
    for (int s = 0; s < layout.stages(); ++s)
      sum += request_.microbatches *
             ComputeSeconds(layout.cuts[s], layout.cuts[s + 1], layout.on(s).front());
    return std::max(sum, load.seconds);
  }
  if (!drains_) return load.seconds;
  double sync = 0;
  for (int s = 0; s < layout.stages(); ++s) sync = std::max(sync, SyncSeconds(layout, s));
  const double groups = static_cast<double>(layout.devices.size());
  const double ramp = (groups - 1) / std::max(1.0, layout.stages() / groups);
  return load.seconds * (request_.microbatches + ramp) / request_.microbatches + sync;
}

std::vector<LayoutCosts::Holdings> LayoutCosts::RuleHoldings(const Layout& layout,
                                                             const std::vector<int>& warmup) const {
  std::vector<Holdings> out;
  for (int s = 0; s < layout.stages(); ++s) {
    const int replicas = layout.replicas(s);
    const int own = (request_.microbatches + replicas - 1) / replicas;
    Holdings holdings;
    holdings.slots = by_minibatch_ ? std::min(warmup[s] + 1, own) : warmup[s] + 1;
    switch (schedule_.policy) {
      case WeightPolicy::kStash:
        holdings.versions = warmup[s] + 1;
        break;
      case WeightPolicy::kVerticalSync:
        holdings.versions = warmup[0] + 1;
        break;
      case WeightPolicy::kDoubleBuffer:
        holdings.versions = 2;
        break;
      default:
        break;
    }
    out.push_back(holdings);
  }
  return out;
}

MemoryPrediction LayoutCosts::Memory(const Layout& layout, int stage, const Holdings& holdings,
                                     const std::vector<Edge>& edges, bool recompute) const {
  const StageFacts& facts = FactsOf(layout.cuts[stage], layout.cuts[stage + 1]);
  const int replicas = layout.replicas(stage);
  // Replicas leave each microbatch's share of the running statistics with it, and sum them.
  const int64_t shares = replicas > 1 ? facts.state_bytes : 0;
  const bool sums = by_minibatch_ && request_.microbatches > replicas;
  MemoryPrediction memory;
  memory.weights = holdings.versions * facts.parameter_bytes + facts.state_bytes +
                   facts.constant_bytes;
  memory.gradients = holdings.gradients * (facts.parameter_bytes + shares) +
                     (sums ? facts.parameter_bytes : 0);
  memory.optimizer = profile().optimizer_state_tensors * facts.parameter_bytes;
  if (holdings.undo) memory.optimizer += memory.optimizer + facts.state_bytes;
  memory.activations =
      holdings.slots * ((recompute ? facts.checkpoint_bytes : facts.kept_bytes) + shares);
  memory.workspace = facts.workspace_bytes + (recompute ? facts.again_bytes : 0);
  for (const Edge& edge : edges) {
    if (edge.from != stage && edge.to != stage) continue;
    const int other = layout.replicas(edge.from == stage ? edge.to : edge.from);
    const int peers = other / std::gcd(replicas, other);
    memory.buffers += int64_t{request_.channel_slots} * (edge.to - edge.from) * peers *
                      (edge.forward_bytes + edge.gradient_bytes);
  }
  return memory;
}

void LayoutCosts::FillMemory(const std::vector<Holdings>& holdings, const std::vector<Edge>& edges,
                             Candidate* candidate) const {
  const Layout& layout = candidate->layout;
  const int stages = layout.stages();
  candidate->memory.clear();
  candidate->versions.clear();
  candidate->recompute.resize(stages, request_.recompute);
  for (int s = 0; s < stages; ++s) {
    if (request_.recompute) candidate->recompute[s] = true;
    candidate->memory.push_back(Memory(layout, s, holdings[s], edges, candidate->recompute[s]));
    candidate->versions.push_back(holdings[s].versions);
  }
  double least_left = 2;
  candidate->lacking_bytes = 0;
  for (size_t g = 0; g < layout.devices.size(); ++g) {
    for (const int device : layout.devices[g]) {
      const int64_t limit = cluster_.memory_bytes(device);
      int64_t needed = 0;
      int fullest = -1;
      const auto add_up = [&] {
        needed = 0;
        for (int s = 0; s < stages; ++s) {
          if (layout.group(s) != static_cast<int>(g)) continue;
          needed += candidate->memory[s].total();
          if (fullest < 0 || candidate->memory[s].total() > candidate->memory[fullest].total())
            fullest = s;
        }
      };
      add_up();
      // Computing again is the way out where memory is short, and only there.
      for (int s = 0; s < stages && limit > 0 && needed > limit && request_.may_recompute; ++s) {
        if (layout.group(s) != static_cast<int>(g) || candidate->recompute[s]) continue;
        const MemoryPrediction again = Memory(layout, s, holdings[s], edges, true);
        if (again.total() >= candidate->memory[s].total()) continue;
        candidate->recompute[s] = true;
        candidate->memory[s] = again;
        add_up();
      }
      if (limit > 0) candidate->lacking_bytes += std::max<int64_t>(0, needed - limit);
      const double left =
          limit > 0 ? 1 - static_cast<double>(needed) / static_cast<double>(limit) : 1;
      const bool fuller = left < least_left || (left == least_left && limit == 0 &&
                                                needed > candidate->needed_bytes);
      if (!fuller) continue;
      least_left = left;
      candidate->fullest_stage = fullest;
      candidate->needed_bytes = needed;
      candidate->available_bytes = limit;
    }
  }
}

double LayoutCosts::BytesMoved(const Layout& layout, const std::vector<Edge>& edges) const {
  double bytes = 0;
  for (const Edge& edge : edges) {
    if (layout.group(edge.from) == layout.group(edge.to)) continue;
    bytes += static_cast<double>(edge.forward_bytes + edge.gradient_bytes) * request_.microbatches;
  }
  for (int s = 0; s < layout.stages(); ++s) {
    const int r = layout.replicas(s);
    const double reduced =
        2.0 * (r - 1) * static_cast<double>(ParameterBytes(layout.cuts[s], layout.cuts[s + 1]));
    bytes += by_minibatch_ ? reduced : reduced / r;
  }
  return bytes;
}

Candidate LayoutCosts::Estimate(const Layout& layout, std::vector<bool> recompute) const {
  Candidate out;
  out.layout = layout;
  out.recompute = std::move(recompute);
  for (int s = 0; s < layout.stages(); ++s) out.warmup.push_back(Warmup(layout, s));
  const std::vector<Edge> edges = Edges(layout);
  FillMemory(RuleHoldings(layout, out.warmup), edges, &out);
  const Load load = Bottleneck(layout, out.recompute);
  out.bottleneck_s = load.seconds;
  out.step_s = StepSeconds(layout, load);
  out.bytes = BytesMoved(layout, edges);
  return out;
}

std::vector<int> LayoutCosts::Deepened(const Candidate& candidate, bool per_link) const {
  const Layout& layout = candidate.layout;
  const double period = candidate.bottleneck_s / request_.microbatches;
  std::vector<int> out(layout.stages());
  double together = 0;  // of all links behind, there and back, in periods
  int alone = 0;
  for (int s = layout.stages() - 1; s >= 0; --s) {
    if (s + 1 < layout.stages()) {
      const auto bytes = static_cast<double>(
          std::max(lattice_.forward_bytes(layout.cuts[s + 1]),
                   lattice_.gradient_bytes(layout.cuts[s + 1])));
      double way = 0;
      for (const int a : layout.on(s)) {
        for (const int b : layout.on(s + 1)) {
          const PathCosts& path = cluster_.path(a, b);
          way = std::max(way, path.latency_s + bytes / path.bandwidth_bytes_per_s);
        }
      }
      const double trips = period > 0 ? std::min(2 * way / period, 1e3) : 0;
      together += trips;
      alone += static_cast<int>(std::ceil(trips - kSame));
    }
    const double more = per_link ? alone : std::ceil(together - kSame);
    Layout own = layout;
    own.warmup.clear();
    out[s] = Warmup(own, s) + static_cast<int>(std::ceil(more / layout.replicas(s) - kSame));
  }
  return out;
}

Candidate LayoutCosts::MeasureAtBestDepth(const Layout& layout) const {
  Candidate best = Measure(layout);
  const bool free = by_formula_ && schedule_.info->name != "gpipe" && request_.warmup.empty() &&
                    layout.warmup.empty() && layout.stages() > 1 && best.refused.ok();
  if (!free) return best;
  // The closed form's time is what depth can bring at most.
  const double least = StepSeconds(layout, Bottleneck(layout, best.recompute));
  const std::vector<int> rule = best.warmup;
  const std::vector<int> deepest = Deepened(best, true);
  std::vector<std::vector<int>> depths = {Deepened(best, false)};
  for (const int more : {1, 2, 4}) {  // no stage further beyond the rule than so
    depths.push_back(rule);
    for (size_t s = 0; s < rule.size(); ++s)
      depths.back()[s] = std::min(deepest[s], rule[s] + more);
  }
  depths.push_back(deepest);
  for (const std::vector<int>& depth : depths) {
    if (best.fits() && best.step_s <= least * (1 + kWorthDeepening)) break;
    if (depth == best.warmup || depth == rule) continue;
    Layout deeper = layout;
    deeper.warmup = depth;
    Candidate candidate = Measure(deeper);
    if (candidate.fits() && candidate.step_s < best.step_s * (1 - kWorthDeepening))
      best = std::move(candidate);
  }
  return best;
}

Candidate LayoutCosts::Measure(const Layout& layout, std::vector<bool> recompute) const {
  Candidate out = Estimate(layout, std::move(recompute));
  const std::vector<Edge> edges = Edges(layout);
  std::vector<Holdings> holdings = RuleHoldings(layout, out.warmup);
  Play(edges, &out, &holdings);
  if (!out.refused.ok()) return out;
  if (!by_formula_) {
    const std::vector<bool> before = out.recompute;
    FillMemory(holdings, edges, &out);
    if (out.recompute != before) {
      out.bottleneck_s = Bottleneck(layout, out.recompute).seconds;
      Play(edges, &out, &holdings);
    }
  }
  out.step_s = std::max(out.step_s, out.bottleneck_s);
  return out;
}

void LayoutCosts::Play(const std::vector<Edge>& edges, Candidate* candidate,
                       std::vector<Holdings>* holdings) const {
  const Layout& layout = candidate->layout;
  const int stages = layout.stages();
  ScheduleShape shape;
  for (int s = 0; s < stages; ++s) shape.replicas.push_back(layout.replicas(s));
  shape.device_of = layout.group_of;
  shape.warmup = layout.warmup;
  std::vector<ScheduleEdge> flow;
  for (const Edge& edge : edges) flow.push_back({edge.from, edge.to, edge.gradient_items > 0});
  if (flow != EdgesOf(shape)) shape.edges = flow;
  std::set<int> tied;
  for (const std::vector<int>& tie : profile().ties) {
    std::set<int> holders;
    for (const int node : tie)
      for (int s = 0; s < stages; ++s)
        if (lattice_.Holds(layout.cuts[s + 1], node) && !lattice_.Holds(layout.cuts[s], node))
          holders.insert(s);
    if (holders.size() > 1) tied.insert(holders.begin(), holders.end());
  }
  shape.tied_stages.assign(tied.begin(), tied.end());

  SimulateOptions options;
  for (const Edge& edge : edges) {
    options.links.push_back({.activation_bytes = static_cast<double>(edge.forward_bytes),
                             .gradient_bytes = static_cast<double>(edge.gradient_bytes)});
  }
  std::vector<int> workers;  // in the order of WorkersOf
  for (const std::vector<int>& group : layout.devices)
    workers.insert(workers.end(), group.begin(), group.end());
  for (const int a : workers) {
    for (const int b : workers) {
      options.paths.push_back(a == b ? PathCosts{} : cluster_.path(a, b));
      if (std::isinf(options.paths.back().bandwidth_bytes_per_s))
        options.paths.back().bandwidth_bytes_per_s = 0;
    }
  }
  options.ports = cluster_.ports();
  for (int s = 0; s < stages; ++s) {
    std::vector<StageCosts>& costs = options.replicas.emplace_back();
    const double reduce_s = SyncSeconds(layout, s);
    for (const int device : layout.on(s)) {
      const StageWork work =
          Work(layout.cuts[s], layout.cuts[s + 1], device, candidate->recompute[s]);
      costs.push_back({.forward_s = work.forward_s,
                       .backward_s = work.backward_s,
                       .backward_input_s = work.backward_input_s,
                       .step_s = work.step_s,
                       .reduce_s = reduce_s});
    }
  }
  absl::StatusOr<Played> played =
      pipedream::Play(request_, schedule_, shape, options, !by_formula_);
  if (!played.ok()) {
    candidate->refused = played.status();
    return;
  }
  candidate->step_s = played->step_s;
  if (by_formula_) return;
  candidate->warmup = played->warmup;
  for (int s = 0; s < stages; ++s) {
    const StageNeeds& needs = played->needs[s];
    (*holdings)[s] = {needs.slots, needs.versions, needs.gradients, needs.undo};
  }
}

}  // namespace pipedream
