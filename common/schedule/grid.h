// A picture of a small schedule for people.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "common/schedule/schedule_table.h"
#include "common/schedule/simulate.h"

namespace pipedream {

// A row per worker, time to the right, a column per unit of time: digits forwards, letters
// backwards (of split ones a small letter for I and a capital for W), '*' evaluations, '.' waiting;
// updates and transfers take no time, a forward one unit, a backward two. For example
//     s0 01..aabb
//     s1 .0aa1bb.
// with "weight versions alive: N" after each row. Errors as Simulate. Meant for some dozens of
// microbatches: the width grows with their number.
absl::StatusOr<std::string> DrawGrid(const ScheduleTable& table);

// The same of a run that has been played, with a ruler of time above, and no weight versions.
//   - As many columns per unit of time as show all times exactly, if few do: a duration is as many
//     equal characters.
//   - A worker with several stages has a row for each. A blank: it works for another one.
//   - '-': waiting, and what is waited for is on the link; '.': it has not been sent yet.
//   - '=' updates and '~' reductions, where they take time.
// `width` > 0: cut into pieces of at most that many characters, one below the other.
// REQUIRES: `played` is of `lowered`, with spans.
std::string DrawGrid(const ScheduleTable& lowered, const Simulation& played, int width = 0);

}  // namespace pipedream
