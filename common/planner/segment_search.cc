#include "common/planner/segment_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace pipedream {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Sums of doubles in another order differ in their last bits; such differences decide nothing.
constexpr double kRounding = 1e-12;

// Dynamic programme from the last position to the first.
class Programme {
 public:
  Programme(const CutLattice& lattice, const SegmentRule& rule, const SegmentLimits& limits)
      : lattice_(lattice),
        rule_(rule),
        limits_(limits),
        cuts_(static_cast<int>(limits.cuts.size())),
        layers_(limits.stages > 0 ? limits.stages : 1),
        replicas_(std::min(limits.max_replicas, limits.positions)) {
    for (int a = 0; a < cuts_; ++a) {
      behind_.emplace_back();
      for (int b = a + 1; b < cuts_; ++b)
        if (lattice.IsBefore(limits.cuts[a], limits.cuts[b])) behind_.back().push_back(b);
    }
  }

  // Without a cap: the least largest term. With one: the fewest bytes if no term is above it.
  void Run(std::optional<double> cap) {
    const size_t states = static_cast<size_t>(top() + 1) * (limits_.positions + 1) * cuts_ *
                          (replicas_ + 1);
    stage_.assign(states, {});
    rest_.assign(states, {});
    const double worst = cap.value_or(kNever);
    for (int position = limits_.positions; position >= 0; --position) {
      for (int layer = 0; layer <= top(); ++layer) {
        for (int cut = cuts_ - 1; cut >= 0; --cut) {
          const bool end = cut == cuts_ - 1;
          if (end) {
            const bool done = (layer == 0 || !layered()) &&
                              (position == limits_.positions || !limits_.use_all);
            for (int before = 1; before <= replicas_ && done; ++before)
              rest_[Index(layer, position, cut, before)].value = {0, 0};
            continue;
          }
          if (layered() && layer == 0) continue;
          Begin(layer, position, cut, worst, cap.has_value());
          Join(layer, position, cut, cap);
        }
      }
    }
  }

  // Best first stage: position and replicas; nullopt if there is no division.
  struct Start {
    int layer = 0;
    int position = 0;
    int replicas = 0;
    std::tuple<double, int> value{kNever, 0};
  };
  std::optional<Start> BestStart(int layer) const {
    std::optional<Start> best;
    for (int position = 0; position < limits_.positions; ++position) {
      if (position > 0 && limits_.use_all) break;
      for (int r = 1; r <= replicas_; ++r) {
        const Cell& cell = stage_[Index(layer, position, 0, r)];
        if (std::get<0>(cell.value) == kNever) continue;
        if (!best || cell.value < best->value) best = Start{layer, position, r, cell.value};
      }
    }
    return best;
  }

  std::vector<Segment> Trace(const Start& start) const {
    std::vector<Segment> out;
    int layer = start.layer, position = start.position, replicas = start.replicas;
    for (int cut = 0; cut != cuts_ - 1;) {
      const Cell& cell = stage_[Index(layer, position, cut, replicas)];
      out.push_back({limits_.cuts[cut], limits_.cuts[cell.choice], position, replicas});
      position += replicas;
      cut = cell.choice;
      if (layered()) --layer;
      replicas = rest_[Index(layer, position, cut, replicas)].choice;
    }
    return out;
  }

  int top() const { return layered() ? layers_ : 0; }

 private:
  struct Cell {
    std::tuple<double, int> value{kNever, 0};  // time or bytes, and stages
    int choice = -1;  // of a stage: the cut behind it; of a rest: the replicas of its first stage
  };

  bool layered() const { return limits_.stages > 0; }
  size_t Index(int layer, int position, int cut, int replicas) const {
    return ((static_cast<size_t>(layer) * (limits_.positions + 1) + position) * cuts_ + cut) *
               (replicas_ + 1) +
           replicas;
  }

  // Stages that begin here.
  void Begin(int layer, int position, int cut, double worst, bool by_bytes) {
    const int most = std::min(replicas_, limits_.positions - position);
    const int rest_layer = layered() ? layer - 1 : 0;
    for (const int to : behind_[cut]) {
      const double work = rule_.Work(limits_.cuts[cut], limits_.cuts[to]);
      int least = 1;
      if (worst < kNever && worst > 0)
        least = std::max(1, static_cast<int>(std::ceil(work / worst * (1 - 1e-9))));
      for (int r = least; r <= most; ++r) {
        const Cell& rest = rest_[Index(rest_layer, position + r, to, r)];
        if (std::get<0>(rest.value) == kNever) continue;
        Cell& cell = stage_[Index(layer, position, cut, r)];
        if (!by_bytes && rest.value >= cell.value) continue;
        const Segment stage{limits_.cuts[cut], limits_.cuts[to], position, r};
        const double seconds = rule_.StageSeconds(stage);
        if (!(seconds < kNever) || seconds > worst * (1 + kRounding)) continue;
        const auto& [rest_value, rest_stages] = rest.value;
        const double value = by_bytes ? rest_value + rule_.Bytes(stage)
                                      : std::max(rest_value, seconds);
        const std::tuple<double, int> candidate{value, rest_stages + 1};
        if (candidate < cell.value) cell = {candidate, to};
      }
    }
  }

  // What follows a stage that ends here.
  void Join(int layer, int position, int cut, std::optional<double> cap) {
    if (cut == 0) return;
    for (int before = 1; before <= replicas_; ++before) {
      Cell& best = rest_[Index(layer, position, cut, before)];
      for (int r = 1; r <= replicas_; ++r) {
        const Cell& cell = stage_[Index(layer, position, cut, r)];
        const auto& [value, stages] = cell.value;
        if (value == kNever) continue;
        const double seconds = rule_.CutSeconds(limits_.cuts[cut], position, before, r);
        if (cap && seconds > *cap * (1 + kRounding)) continue;
        const std::tuple<double, int> candidate{cap ? value : std::max(value, seconds), stages};
        if (candidate < best.value) best = {candidate, r};
      }
    }
  }

  const CutLattice& lattice_;
  const SegmentRule& rule_;
  const SegmentLimits& limits_;
  const int cuts_;
  const int layers_;
  const int replicas_;
  std::vector<std::vector<int>> behind_;
  std::vector<Cell> stage_;  // begins at a position and a cut, with so many replicas
  std::vector<Cell> rest_;   // behind a stage of so many replicas
};

}  // namespace

std::optional<std::vector<Segment>> BestSegments(const CutLattice& lattice, const SegmentRule& rule,
                                                 const SegmentLimits& limits) {
  Programme programme(lattice, rule, limits);
  programme.Run(std::nullopt);
  std::optional<Programme::Start> start = programme.BestStart(programme.top());
  if (!start) return std::nullopt;
  programme.Run(std::get<0>(start->value));
  start = programme.BestStart(programme.top());
  if (!start) return std::nullopt;
  return programme.Trace(*start);
}

std::vector<std::vector<Segment>> BestOfEachLength(const CutLattice& lattice,
                                                   const SegmentRule& rule,
                                                   const SegmentLimits& limits) {
  Programme programme(lattice, rule, limits);
  programme.Run(std::nullopt);
  std::vector<std::vector<Segment>> out;
  for (int layer = 1; layer <= limits.stages; ++layer) {
    const std::optional<Programme::Start> start = programme.BestStart(layer);
    if (start) out.push_back(programme.Trace(*start));
  }
  return out;
}

}  // namespace pipedream
