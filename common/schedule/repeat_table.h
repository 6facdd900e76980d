// Schedules that were made outside of this library: a file says the order of one minibatch, and a
// run of many follows from it.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// A table in either notation: the text form of ParseTable, which begins with the word "schedule",
// or the CSV of pytorch_csv.h. Errors as the parser's.
absl::StatusOr<ScheduleTable> ParseScheduleFile(std::string_view text);

// The compute instructions of the whole run, for MakePrograms, which also proves them right.
//
// A `pattern` of one minibatch, policy flush: its F, B, I and W in every minibatch of the run with
// the microbatch numbers moved on, then the updates, and the evaluation after each epoch. Nothing
// else in the pattern matters; it may be a lowered table. A replica takes in each minibatch the row
// whose microbatches it has there. kInvalidArgument unless replicas, microbatches and devices are
// the run's.
//
// A pattern of several minibatches or another policy is the whole run already, and is taken as it
// is, without what passes add. kInvalidArgument unless its shape is the run's; edges, ties and
// norms are always taken from the run.
//
// kInvalidArgument names the field that does not agree, what was found and what was expected.
absl::StatusOr<ScheduleTable> RepeatTable(const ScheduleTable& pattern, const ScheduleShape& run);

}  // namespace pipedream
