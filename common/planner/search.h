// The exact search over divisions of a chain of nodes into stages with replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/planner/costs.h"

namespace pipedream {

struct SearchLimits {
  int min_workers = 1;
  int max_workers = 1;
  int stages = 0;      // exactly; 0: free
  int max_stages = 0;  // with stages == 0: at most; 0: no bound
  int max_replicas = 1;
  double bandwidth = 0;           // bytes per second between any two workers
  int64_t memory_bytes = 0;       // of a worker; 0: no limit
  std::vector<bool> cut;          // cut[n]: a stage may begin at node n; cut[0] is true
  std::vector<bool> significant;  // a stage must hold a node of these
};

// Dynamic programme from the last node to the first over (first node, workers, and stages where
// they are counted). The first node's workers-of-this-and-later-stages is what in-flight and
// version counts depend on, so memory is exact. Time O(cuts^2 workers^2 stages-if-counted).
class PartitionSearch {
 public:
  // Borrows the cost model.
  PartitionSearch(const CostModel& costs, SearchLimits limits);

  // The shortest minibatch; among equals fewer bytes moved, less peak memory, fewer workers, fewer
  // stages, earlier cuts. nullopt if nothing fits.
  std::optional<Partition> Fastest() const;
  // Of each possible number of stages the one with the least longest stage, ascending; one division
  // altogether where time does not depend on their number.
  std::vector<Partition> FastestOfEach() const;
  // The least peak memory, whatever the time and the limit. nullopt only if `stages` cannot be had.
  std::optional<Partition> Smallest() const;

 private:
  enum class Goal { kTime, kBytes, kMemory };
  // Lexicographic. kTime and kMemory: the largest of any stage in `first`; kBytes: the sum in
  // `first`, the largest memory in `second`.
  struct Score {
    double first = 0;
    double second = 0;
    int stages = 0;
    bool operator<(const Score& other) const;
  };
  struct Cell {
    Score score;
    int end = -1;  // of the first stage; -1: no division
    int replicas = 0;
    bool feasible = false;
  };
  class Table;

  int Layers() const;  // counted stages; 0: not counted
  Table Run(Goal goal, double cap) const;
  void Extend(Goal goal, double cap, int begin, int end, const NodeSums& sums, Table* table) const;
  Partition Trace(const Table& table, int workers, int layer) const;
  // The workers count whose division of `layer` is best.
  std::optional<int> BestWorkers(const Table& table, int layer) const;
  std::optional<int> BestLayer(const Table& table) const;

  const CostModel& costs_;
  const SearchLimits limits_;
};

}  // namespace pipedream
