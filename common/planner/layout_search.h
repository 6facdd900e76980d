// Layouts worth measuring. Where all can be looked at, they are; else the best of many starts,
// each improved step by step.
#pragma once

#include <vector>

#include "common/planner/layout.h"

namespace pipedream {

struct SearchSettings {
  int stages = 0;        // exactly; 0: free
  int max_replicas = 1;
  bool use_all = false;  // no device may be idle
  bool straight = false; // one replica each, at least two stages
  // Layouts that are looked at in the closed form at most, and played at most. Counts and not
  // seconds, so that the answer does not depend on the machine.
  int most_estimates = 20000;
  int most_measures = 40;
};

struct SearchResult {
  std::vector<Candidate> best;  // measured, best first; none fits if the first does not
  bool exhaustive = false;      // nothing that the measure ranks higher was left out
};

// REQUIRES a schedule that leaves the layout free, or one that says it all but for the cuts.
SearchResult SearchLayouts(const LayoutCosts& costs, const SearchSettings& settings);

}  // namespace pipedream
