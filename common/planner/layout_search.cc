#include "common/planner/layout_search.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "common/planner/segment_search.h"

namespace pipedream {
namespace {

constexpr double kUnreachable = std::numeric_limits<double>::infinity();
// The most layouts among which every one is looked at.
constexpr int kAllLayouts = 6000;
// Cuts that a dynamic programme looks at where it counts stages, or devices are many.
constexpr int kFewCuts = 96;
constexpr int kStarts = 8;  // that are improved

// Stages on devices in a row, as the closed form sees them.
class RowRule : public SegmentRule {
 public:
  // `overlaps`: the all-reduce runs beside the compute; else behind it.
  RowRule(const LayoutCosts& costs, std::vector<int> row, bool overlaps)
      : costs_(costs), row_(std::move(row)), overlaps_(overlaps) {
    const int count = static_cast<int>(row_.size());
    slowest_.assign(static_cast<size_t>(count) * (count + 1), {});
    for (int first = 0; first < count; ++first) {
      std::map<int, double> slow;  // by profile
      std::vector<int> devices;
      for (int r = 1; first + r <= count; ++r) {
        const int device = row_[first + r - 1];
        devices.push_back(device);
        auto [it, fresh] =
            slow.try_emplace(costs.cluster().profile(device), costs.cluster().speed(device));
        it->second = std::min(it->second, costs.cluster().speed(device));
        Row& cell = slowest_[Index(first, r)];
        for (const auto& [profile, speed] : slow) {
          for (const int d : devices) {
            if (costs.cluster().profile(d) == profile && costs.cluster().speed(d) == speed) {
              cell.devices.push_back(d);
              break;
            }
          }
        }
        cell.ring_s_per_byte = costs.cluster().RingSecondsPerByte(devices);
      }
    }
  }

  double StageSeconds(const Segment& stage) const override {
    const Row& row = slowest_[Index(stage.first, stage.replicas)];
    double compute = 0;
    for (const int device : row.devices)
      compute = std::max(compute, costs_.ComputeSeconds(stage.from, stage.to, device));
    const double r = stage.replicas;
    const double m = costs_.request().microbatches;
    const double share = costs_.by_minibatch() ? std::ceil(m / r) / m : 1 / r;
    double sync = 0;
    if (stage.replicas > 1) {
      sync = 2 * (r - 1) / r *
             static_cast<double>(costs_.ParameterBytes(stage.from, stage.to)) *
             row.ring_s_per_byte / (costs_.by_minibatch() ? m : r);
    }
    return overlaps_ ? std::max(compute * share, sync) : compute * share + sync;
  }

  double CutSeconds(int cut, int first, int before, int behind) const override {
    const PathCosts& path = costs_.cluster().path(row_[first - 1], row_[first]);
    const auto bytes = static_cast<double>(std::max(costs_.lattice().forward_bytes(cut),
                                                    costs_.lattice().gradient_bytes(cut)));
    return bytes / (path.bandwidth_bytes_per_s * std::min(before, behind));
  }

  double Bytes(const Segment& stage) const override {
    const double r = stage.replicas;
    return static_cast<double>(costs_.lattice().bytes(stage.from)) +
           2 * (r - 1) / r * static_cast<double>(costs_.ParameterBytes(stage.from, stage.to));
  }

  double Work(int, int) const override { return 0; }

 private:
  struct Row {
    std::vector<int> devices;  // one of each kind, the slowest
    double ring_s_per_byte = 0;
  };
  size_t Index(int first, int replicas) const {
    return static_cast<size_t>(first) * (row_.size() + 1) + replicas;
  }
  const LayoutCosts& costs_;
  const std::vector<int> row_;
  const bool overlaps_;
  std::vector<Row> slowest_;
};

// So few of the lattice's cuts that a large programme stays quick: evenly by work, of those near
// each other the one that least crosses.
std::vector<int> FewCuts(const LayoutCosts& costs, int most) {
  const CutLattice& lattice = costs.lattice();
  std::vector<int> out(lattice.size());
  std::iota(out.begin(), out.end(), 0);
  if (lattice.size() <= most) return out;
  const double total = costs.ComputeSeconds(0, lattice.last(), 0);
  std::map<int, int> best;  // by share of the work
  for (int cut = 1; cut < lattice.last(); ++cut) {
    const int bin =
        total > 0 ? static_cast<int>(costs.ComputeSeconds(0, cut, 0) / total * (most - 2)) : cut;
    const auto [it, fresh] = best.try_emplace(bin, cut);
    if (!fresh && lattice.bytes(cut) < lattice.bytes(it->second)) it->second = cut;
  }
  std::set<int> chosen = {0, lattice.last()};
  for (const auto& [bin, cut] : best) chosen.insert(cut);
  return {chosen.begin(), chosen.end()};
}

class Search {
 public:
  Search(const LayoutCosts& costs, const SearchSettings& settings)
      : costs_(costs), cluster_(costs.cluster()), lattice_(costs.lattice()), settings_(settings) {}

  SearchResult Run() {
    SearchResult out;
    if (free_layout()) {
      out.exhaustive = Enumerate();
      if (!out.exhaustive) {
        pool_.clear();
        FreeStarts();
        Improve();
      }
    } else {
      FixedStarts();
      Improve();
    }
    out.exhaustive = MeasureBest(&out.best) && out.exhaustive;
    if (!out.exhaustive) Polish(&out.best);
    return out;
  }

 private:
  bool free_layout() const {
    const JobSchedule& schedule = costs_.schedule();
    return schedule.table == nullptr && schedule.info->place == nullptr &&
           schedule.info->name != "data_parallel";
  }

  bool Allowed(const Layout& layout) const {
    if (settings_.stages > 0 && layout.stages() != settings_.stages) return false;
    if (settings_.use_all && layout.workers() != cluster_.size()) return false;
    if (settings_.straight && layout.stages() < 2) return false;
    for (int s = 0; s < layout.stages(); ++s)
      if (layout.replicas(s) > (settings_.straight ? 1 : settings_.max_replicas)) return false;
    return true;
  }

  // Looks at a layout; what it is worth.
  const Candidate* Look(Layout layout) {
    if (!Allowed(layout)) return nullptr;
    if (static_cast<int>(costs_.request().warmup.size()) == layout.stages())
      layout.warmup = costs_.request().warmup;
    auto it = pool_.find(layout);
    if (it == pool_.end()) {
      Candidate candidate = costs_.Estimate(layout);
      it = pool_.emplace(std::move(layout), std::move(candidate)).first;
    }
    return &it->second;
  }

  // --- All of them ---------------------------------------------------------------------------

  // False if there are too many.
  bool Enumerate() {
    if (cluster_.size() > 8 || lattice_.size() > 64 || !lattice_.complete()) return false;
    std::vector<int> cuts = {0};
    std::vector<std::vector<int>> devices;
    std::vector<bool> used(cluster_.size());
    return EnumerateFrom(&cuts, &devices, &used);
  }

  bool EnumerateFrom(std::vector<int>* cuts, std::vector<std::vector<int>>* devices,
                     std::vector<bool>* used) {
    if (cuts->back() == lattice_.last()) {
      Look({*cuts, *devices, {}, {}});
      return static_cast<int>(pool_.size()) <= kAllLayouts;
    }
    std::vector<int> free;
    for (int d = 0; d < cluster_.size(); ++d)
      if (!(*used)[d]) free.push_back(d);
    const int stage = static_cast<int>(devices->size()) + 1;
    if (settings_.stages > 0 && stage > settings_.stages) return true;
    for (const int to : lattice_.Behind(cuts->back())) {
      if (settings_.stages > 0 && (to == lattice_.last()) != (stage == settings_.stages)) continue;
      for (unsigned set = 1; set < 1u << free.size(); ++set) {
        std::vector<int> chosen;
        if (!FirstOfClass(free, set, &chosen)) continue;
        for (const int d : chosen) (*used)[d] = true;
        cuts->push_back(to);
        devices->push_back(chosen);
        const bool fine = EnumerateFrom(cuts, devices, used);
        cuts->pop_back();
        devices->pop_back();
        for (const int d : chosen) (*used)[d] = false;
        if (!fine) return false;
      }
    }
    return true;
  }

  // Of devices that are alike the first are taken; others would make the same layout.
  bool FirstOfClass(const std::vector<int>& free, unsigned set, std::vector<int>* chosen) const {
    std::set<int> left;  // classes of which one was left
    for (size_t i = 0; i < free.size(); ++i) {
      const int kind = cluster_.device_class(free[i]);
      if ((set >> i & 1) == 0) {
        left.insert(kind);
      } else if (left.contains(kind)) {
        return false;
      } else {
        chosen->push_back(free[i]);
      }
    }
    return true;
  }

  // --- Starts ----------------------------------------------------------------------------------

  // Orders of devices in which neighbours may become replicas or neighbouring stages.
  std::vector<std::vector<int>> Rows() const {
    std::vector<int> given(cluster_.size());
    std::iota(given.begin(), given.end(), 0);
    const auto by = [&](auto key) {
      std::vector<int> row = given;
      std::ranges::stable_sort(row, [&](int a, int b) { return key(a) < key(b); });
      return row;
    };
    const int whole = lattice_.last();
    std::vector<double> seconds;
    for (const int d : given) seconds.push_back(costs_.ComputeSeconds(0, whole, d));
    std::vector<std::vector<int>> rows = {
        given,
        by([&](int d) { return std::tuple(seconds[d], cluster_.host(d)); }),
        by([&](int d) { return std::tuple(-seconds[d], cluster_.host(d)); }),
        by([&](int d) { return std::tuple(-cluster_.memory_bytes(d), seconds[d]); }),
        by([&](int d) { return std::tuple(cluster_.host(d), seconds[d]); })};
    std::vector<std::vector<int>> out;
    for (std::vector<int>& row : rows)
      if (std::ranges::find(out, row) == out.end()) out.push_back(std::move(row));
    return out;
  }

  void Take(const std::vector<Segment>& segments, const std::vector<int>& row) {
    Layout layout;
    layout.cuts.push_back(0);
    for (const Segment& segment : segments) {
      layout.cuts.push_back(segment.to);
      layout.devices.emplace_back(row.begin() + segment.first,
                                  row.begin() + segment.first + segment.replicas);
      std::ranges::sort(layout.devices.back());
    }
    Look(std::move(layout));
  }

  void FreeStarts() {
    const int count = cluster_.size();
    const int replicas = settings_.straight ? 1 : std::min(settings_.max_replicas, count);
    const bool counted = settings_.stages > 0 || settings_.straight || costs_.drains();
    for (const std::vector<int>& row : Rows()) {
      for (const bool overlaps : {true, false}) {
        if (!overlaps && replicas == 1) continue;
        const RowRule rule(costs_, row, overlaps);
        SegmentLimits limits{.positions = count,
                             .max_replicas = replicas,
                             .use_all = settings_.use_all,
                             .stages = 0,
                             .cuts = FewCuts(costs_, count > 24 ? kFewCuts / 2
                                                    : count > 8 || counted ? kFewCuts
                                                                           : 256)};
        if (!counted) {
          if (const auto best = BestSegments(lattice_, rule, limits)) Take(*best, row);
          continue;
        }
        limits.stages =
            settings_.stages > 0 ? settings_.stages : std::min({count, lattice_.most_stages(), 16});
        for (const std::vector<Segment>& best : BestOfEachLength(lattice_, rule, limits))
          Take(best, row);
      }
      // One stage, on more and more of the devices.
      for (int r = 1; r <= replicas && !settings_.straight; ++r)
        Take({{0, lattice_.last(), 0, r}}, row);
    }
  }

  // Where the schedule, or a table, says which stages share which devices.
  void FixedStarts() {
    const JobSchedule& schedule = costs_.schedule();
    for (const std::vector<int>& row : Rows()) {
      if (schedule.table != nullptr) {
        const ScheduleShape& shape = schedule.table->shape;
        std::vector<int> counts(shape.devices());
        for (int s = 0; s < shape.stages(); ++s)
          counts[DeviceOf(shape, StageId(s))] = shape.replicas[s];
        const bool own = shape.devices() == shape.stages() && shape.device_of.empty();
        std::vector<int> group_of = own ? std::vector<int>() : shape.device_of;
        FixedStart(row, counts, group_of, shape.stages());
      } else if (schedule.info->name == "data_parallel") {
        FixedStart(row, {std::min<int>(settings_.max_replicas, cluster_.size())}, {}, 1);
      } else {
        for (int devices = 1; devices <= cluster_.size(); ++devices) {
          if (settings_.use_all && devices != cluster_.size()) continue;
          const int stages = devices * schedule.chunks;
          if (settings_.stages > 0 && settings_.stages != stages) continue;
          FixedStart(row, std::vector<int>(devices, 1), schedule.device_of(devices), stages);
        }
      }
    }
  }

  void FixedStart(const std::vector<int>& row, const std::vector<int>& counts,
                  const std::vector<int>& group_of, int stages) {
    Layout layout;
    layout.group_of = group_of;
    size_t at = 0;
    for (const int count : counts) {
      std::vector<int>& group = layout.devices.emplace_back();
      for (int k = 0; k < count; ++k) {
        if (at >= row.size()) return;
        group.push_back(row[at++]);
      }
      std::ranges::sort(group);
    }
    // A stage counts as a position; the largest compute of any is made least.
    const StageRule rule(costs_, layout);
    SegmentLimits limits{.positions = stages,
                         .max_replicas = 1,
                         .use_all = true,
                         .stages = 0,
                         .cuts = FewCuts(costs_, std::max(256, 4 * stages))};
    const auto best = BestSegments(lattice_, rule, limits);
    if (!best || static_cast<int>(best->size()) != stages) return;
    layout.cuts = {0};
    for (const Segment& segment : *best) layout.cuts.push_back(segment.to);
    Look(std::move(layout));
  }

  class StageRule : public SegmentRule {
   public:
    StageRule(const LayoutCosts& costs, const Layout& layout) : costs_(costs), layout_(layout) {}
    double StageSeconds(const Segment& stage) const override {
      double slowest = 0;
      for (const int device : layout_.devices[layout_.group(stage.first)])
        slowest = std::max(slowest, costs_.ComputeSeconds(stage.from, stage.to, device));
      return slowest / static_cast<double>(layout_.devices[layout_.group(stage.first)].size());
    }
    double CutSeconds(int, int, int, int) const override { return 0; }
    double Bytes(const Segment& stage) const override {
      return static_cast<double>(costs_.lattice().bytes(stage.from));
    }
    double Work(int, int) const override { return 0; }

   private:
    const LayoutCosts& costs_;
    const Layout& layout_;
  };

  // --- Step by step ----------------------------------------------------------------------------

  static bool Prefer(const Candidate& a, const Candidate& b) {
    if (a.lacking_bytes != b.lacking_bytes) return a.lacking_bytes < b.lacking_bytes;
    return Better(a, b);
  }

  std::vector<const Candidate*> Ranked() const {
    std::vector<const Candidate*> out;
    for (const auto& [layout, candidate] : pool_) out.push_back(&candidate);
    std::ranges::sort(out, [](const Candidate* a, const Candidate* b) { return Prefer(*a, *b); });
    return out;
  }

  void Improve() {
    std::vector<Layout> starts;
    for (const Candidate* candidate : Ranked()) {
      if (static_cast<int>(starts.size()) >= kStarts) break;
      starts.push_back(candidate->layout);
    }
    for (Layout& at : starts) {
      // Moves are tried in a fixed order; the best of each round is taken.
      for (int round = 0; round < 200; ++round) {
        if (static_cast<int>(pool_.size()) > settings_.most_estimates) return;
        const Candidate* best = Look(at);
        if (best == nullptr) break;
        const Layout before = at;
        Candidate found = *best;
        for (Layout& next : Neighbours(before)) {
          const Candidate* candidate = Look(std::move(next));
          if (candidate != nullptr && Prefer(*candidate, found)) found = *candidate;
        }
        if (found.layout == best->layout || found.layout == before) break;
        at = found.layout;
      }
    }
  }

  std::vector<Layout> Neighbours(const Layout& layout) const {
    std::vector<Layout> out;
    MoveCuts(layout, &out);
    if (costs_.schedule().table == nullptr || layout.group_of.empty()) SwapDevices(layout, &out);
    if (!free_layout()) return out;
    MoveDevices(layout, &out);
    MergeStages(layout, &out);
    SplitStages(layout, &out);
    return out;
  }

  void MoveCuts(const Layout& layout, std::vector<Layout>* out) const {
    for (int i = 1; i < layout.stages(); ++i) {
      const int at = layout.cuts[i];
      for (const int direction : {-1, 1}) {
        int taken = 0, wanted = 1, seen = 0;
        for (int cut = at + direction; cut > 0 && cut < lattice_.last() && taken < 5;
             cut += direction) {
          if (!lattice_.IsBefore(layout.cuts[i - 1], cut) ||
              !lattice_.IsBefore(cut, layout.cuts[i + 1]))
            continue;
          if (++seen < wanted) continue;
          wanted *= 2;
          ++taken;
          out->push_back(layout);
          out->back().cuts[i] = cut;
        }
      }
    }
  }

  std::vector<int> Idle(const Layout& layout) const {
    std::vector<bool> used(cluster_.size());
    for (const std::vector<int>& group : layout.devices)
      for (const int d : group) used[d] = true;
    std::vector<int> out;
    for (int d = 0; d < cluster_.size(); ++d)
      if (!used[d]) out.push_back(d);
    return out;
  }

  // One device of each class.
  std::vector<int> Representatives(const std::vector<int>& devices) const {
    std::vector<int> out;
    std::set<int> seen;
    for (const int d : devices)
      if (seen.insert(cluster_.device_class(d)).second) out.push_back(d);
    return out;
  }

  static void Replace(std::vector<int>* devices, int from, int to) {
    std::erase(*devices, from);
    devices->push_back(to);
    std::ranges::sort(*devices);
  }

  void SwapDevices(const Layout& layout, std::vector<Layout>* out) const {
    const std::vector<int> idle = Representatives(Idle(layout));
    for (size_t a = 0; a < layout.devices.size(); ++a) {
      for (const int x : Representatives(layout.devices[a])) {
        for (const int y : idle) {
          if (cluster_.device_class(x) == cluster_.device_class(y)) continue;
          out->push_back(layout);
          Replace(&out->back().devices[a], x, y);
        }
        for (size_t b = a + 1; b < layout.devices.size(); ++b) {
          for (const int y : Representatives(layout.devices[b])) {
            if (cluster_.device_class(x) == cluster_.device_class(y)) continue;
            out->push_back(layout);
            Replace(&out->back().devices[a], x, y);
            Replace(&out->back().devices[b], y, x);
          }
        }
      }
    }
  }

  void MoveDevices(const Layout& layout, std::vector<Layout>* out) const {
    const std::vector<int> idle = Representatives(Idle(layout));
    for (size_t a = 0; a < layout.devices.size(); ++a) {
      for (const int d : idle) {
        out->push_back(layout);
        out->back().devices[a].push_back(d);
        std::ranges::sort(out->back().devices[a]);
      }
      if (layout.devices[a].size() < 2) continue;
      for (const int d : Representatives(layout.devices[a])) {
        out->push_back(layout);
        std::erase(out->back().devices[a], d);
        for (size_t b = 0; b < layout.devices.size(); ++b) {
          if (a == b) continue;
          out->push_back(layout);
          std::erase(out->back().devices[a], d);
          out->back().devices[b].push_back(d);
          std::ranges::sort(out->back().devices[b]);
        }
      }
    }
  }

  void MergeStages(const Layout& layout, std::vector<Layout>* out) const {
    for (int s = 0; s + 1 < layout.stages(); ++s) {
      out->push_back(layout);
      Layout& merged = out->back();
      merged.cuts.erase(merged.cuts.begin() + s + 1);
      merged.devices[s].insert(merged.devices[s].end(), layout.devices[s + 1].begin(),
                               layout.devices[s + 1].end());
      std::ranges::sort(merged.devices[s]);
      merged.devices.erase(merged.devices.begin() + s + 1);
      merged.warmup.clear();
    }
  }

  // Into two, where work is shared as the devices are, and near there.
  void SplitStages(const Layout& layout, std::vector<Layout>* out) const {
    const std::vector<int> idle = Idle(layout);
    for (int s = 0; s < layout.stages(); ++s) {
      std::vector<int> devices = layout.devices[s];
      if (!idle.empty()) devices.push_back(idle.front());
      const int r = static_cast<int>(devices.size());
      if (r < 2) continue;
      const int from = layout.cuts[s], to = layout.cuts[s + 1];
      const double whole = costs_.ComputeSeconds(from, to, devices[0]);
      std::set<int> counts = {1, r - 1, r / 2, (r + 1) / 2};
      for (const int first : counts) {
        int best = -1;
        double distance = kUnreachable;
        for (const int cut : lattice_.Behind(from)) {
          if (!lattice_.IsBefore(cut, to)) continue;
          const double off =
              std::abs(costs_.ComputeSeconds(from, cut, devices[0]) - whole * first / r);
          if (off >= distance) continue;
          distance = off;
          best = cut;
        }
        if (best < 0) continue;
        for (const bool reversed : {false, true}) {
          out->push_back(layout);
          Layout& split = out->back();
          std::vector<int> row = devices;
          if (reversed) std::ranges::reverse(row);
          std::vector<int> front(row.begin(), row.begin() + first);
          std::vector<int> back(row.begin() + first, row.end());
          std::ranges::sort(front);
          std::ranges::sort(back);
          split.cuts.insert(split.cuts.begin() + s + 1, best);
          split.devices[s] = std::move(front);
          split.devices.insert(split.devices.begin() + s + 1, std::move(back));
          split.warmup.clear();
        }
      }
    }
  }

  // --- Measuring -------------------------------------------------------------------------------

  // Step by step as well, by what was played.
  void Polish(std::vector<Candidate>* best) {
    std::set<Layout> played;
    for (const Candidate& candidate : *best) played.insert(candidate.layout);
    for (int left = settings_.most_measures; left > 0 && !best->empty();) {
      const Layout at = best->front().layout;
      std::vector<const Candidate*> near;
      for (Layout& next : Neighbours(at)) {
        const Candidate* candidate = Look(std::move(next));
        if (candidate == nullptr || played.contains(candidate->layout)) continue;
        if (candidate->lacking_bytes > best->front().lacking_bytes) continue;
        if (candidate->lacking_bytes == best->front().lacking_bytes &&
            candidate->bottleneck_s > best->front().step_s)
          continue;
        near.push_back(candidate);
      }
      std::ranges::sort(near, [](const Candidate* a, const Candidate* b) { return Prefer(*a, *b); });
      for (const Candidate* candidate : near) {
        if (left-- <= 0) break;
        if (!played.insert(candidate->layout).second) continue;
        Candidate measured = costs_.MeasureAtBestDepth(candidate->layout);
        if (!measured.refused.ok() || !Prefer(measured, best->front())) continue;
        best->insert(best->begin(), std::move(measured));
        break;
      }
      if (best->front().layout == at) return;
    }
  }

  // The closed form's bottleneck is a lower bound: what has a larger one than the best that was
  // played need not be. True if no more was left out than that.
  bool MeasureBest(std::vector<Candidate>* best) const {
    std::vector<const Candidate*> ranked = Ranked();
    bool all = true;
    int played = 0;
    for (const Candidate* candidate : ranked) {
      const bool found = !best->empty() && best->front().fits();
      if (found && (candidate->lacking_bytes > 0 ||
                    candidate->bottleneck_s > best->front().step_s * (1 + 1e-9)))
        continue;
      if (played >= settings_.most_measures) {
        all = false;
        break;
      }
      if (!found && candidate->lacking_bytes > 0 && played >= settings_.most_measures / 4) break;
      ++played;
      Candidate measured = costs_.MeasureAtBestDepth(candidate->layout);
      best->push_back(std::move(measured));
      std::ranges::stable_sort(*best, [](const Candidate& a, const Candidate& b) {
        if (a.refused.ok() != b.refused.ok()) return a.refused.ok();
        return Prefer(a, b);
      });
    }
    return all;
  }

  const LayoutCosts& costs_;
  const Cluster& cluster_;
  const CutLattice& lattice_;
  const SearchSettings& settings_;
  std::map<Layout, Candidate> pool_;
};

}  // namespace

SearchResult SearchLayouts(const LayoutCosts& costs, const SearchSettings& settings) {
  return Search(costs, settings).Run();
}

}  // namespace pipedream
