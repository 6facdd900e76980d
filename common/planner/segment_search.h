// Which cuts, with how many replicas each, over devices in a row: the exact minimum of a rule that
// charges every stage and every cut between two stages, and counts the largest.
#pragma once

#include <optional>
#include <vector>

#include "common/planner/cut_lattice.h"

namespace pipedream {

// A stage of the nodes between two cuts, on the devices at positions [first, first + replicas).
struct Segment {
  int from = 0;
  int to = 0;
  int first = 0;
  int replicas = 1;
};

class SegmentRule {
 public:
  virtual ~SegmentRule() = default;
  // Seconds of one of the stage's minibatches, all replicas together; infinite where it cannot be.
  virtual double StageSeconds(const Segment& stage) const = 0;
  // Of the cut between a stage of `before` replicas and one of `behind`, which begins at `first`.
  virtual double CutSeconds(int cut, int first, int before, int behind) const = 0;
  // Bytes moved by the stage, its incoming cut included: of two equal divisions the one with fewer.
  virtual double Bytes(const Segment& stage) const = 0;
  // A lower bound of replicas * StageSeconds.
  virtual double Work(int from, int to) const = 0;
};

struct SegmentLimits {
  int positions = 1;
  int max_replicas = 1;
  bool use_all = false;  // no device may be idle
  int stages = 0;        // at most so many are told apart; 0: their number does not matter
  std::vector<int> cuts;  // of the lattice that may be used, ascending, with 0 and the last
};

// The best division into exactly limits.stages stages (0: any number). A second pass finds, among
// all that are as fast, the one that moves fewest bytes, then has fewest stages. nullopt if there
// is none.
std::optional<std::vector<Segment>> BestSegments(const CutLattice& lattice, const SegmentRule& rule,
                                                 const SegmentLimits& limits);
// The best for each number of stages 1 .. limits.stages that is possible, by time alone.
std::vector<std::vector<Segment>> BestOfEachLength(const CutLattice& lattice,
                                                   const SegmentRule& rule,
                                                   const SegmentLimits& limits);

}  // namespace pipedream
