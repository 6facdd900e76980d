// A picture of a small schedule for people.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// A row per worker, time to the right: digits forwards, letters backwards (two columns; of split
// ones a small letter for I and a capital for W), e evaluations, '.' waiting; updates and transfers
// take no time. For example
//     s0 01..aabb
//     s1 .0aa1bb.
// with "weight versions alive: N" after each row. Errors as Simulate. Meant for some dozens of
// microbatches: the width grows with their number.
absl::StatusOr<std::string> DrawGrid(const ScheduleTable& table);

}  // namespace pipedream
