// The notation in which torch.distributed.pipelining loads and dumps schedules, so that a schedule
// made for one of the two runs on the other.
//
// A row per device, a cell per action, comma separated: STAGE ACTION MICROBATCH, as in "0F3".
// Actions that compute: F forward, B backward, I and W its input-gradient and weight-gradient
// halves. An empty cell is idle time.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// One minibatch of a synchronous schedule, as compute instructions: policy flush, no replicas, as
// many stages and microbatches as the cells name, and an update of every stage at the end of its
// device's row. Actions that move tensors or shards (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD,
// RESHARD, REDUCE_GRAD) are left out: passes add what we need of them. kInvalidArgument names row
// and cell, what was found and what was expected; among others for overlapped actions, for a stage
// on two devices, and for an action that comes twice. Whether all are there and in a possible order
// is for the validator.
absl::StatusOr<ScheduleTable> ParsePyTorchCsv(std::string_view text);

// The inverse, on compute instructions; all others are left out. kInvalidArgument if the notation
// cannot say it: replicas, several minibatches, policies other than flush.
absl::StatusOr<std::string> FormatPyTorchCsv(const ScheduleTable& table);

}  // namespace pipedream
