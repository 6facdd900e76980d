// A schedule: for every worker the list of its instructions, in order.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/instruction.h"
#include "common/schedule/schedule_shape.h"
#include "common/schedule/weight_policy.h"

namespace pipedream {

struct ScheduleTable {
  std::string name;  // "pipedream", "1f1b", "gpipe", ...
  WeightPolicy policy = WeightPolicy::kStash;
  ScheduleShape shape;
  // In the order of WorkersOf(shape).
  std::vector<std::vector<Instruction>> programs;

  int workers() const { return static_cast<int>(programs.size()); }
  bool operator==(const ScheduleTable&) const = default;
};

// How headers and messages write a policy: flush, stash, vsync, 2bw, speculative, single.
std::string_view PolicyName(WeightPolicy policy);

// Text form: a header line, then one line per worker, labelled by its first stage and its replica
// ("s0.r0:"); parse is the inverse of format and names line and column of the first fault.
std::string FormatTable(const ScheduleTable& table);
absl::StatusOr<ScheduleTable> ParseTable(std::string_view text);

}  // namespace pipedream
