#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"
#include "common/schedule/schedules.h"

namespace pipedream {

const std::vector<ScheduleInfo>& AllSchedules() {
  static const auto* const kAll = new std::vector<ScheduleInfo>{
      {"pipedream", "asynchronous 1F1B with weight stashing: no bubble, delayed gradients", false,
       WeightPolicy::kStash, CheckPipedream, EmitPipedream},
      {"pipedream_vsync", "as pipedream, all stages read the version that stage 0 read", false,
       WeightPolicy::kVerticalSync, CheckVerticalSync, EmitVerticalSync},
      {"2bw", "asynchronous, two weight versions: gradients delayed by one minibatch", false,
       WeightPolicy::kDoubleBuffer, CheckDoubleBuffer, EmitDoubleBuffer},
      {"paci", "asynchronous, one weight copy: a microbatch may mix neighbour versions", false,
       WeightPolicy::kSingle, CheckPaci, EmitPaci},
      {"1f1b", "synchronous 1F1B with a flush per minibatch: few activations kept", true,
       WeightPolicy::kFlush, CheckFlush, EmitOneForwardOneBackward},
      {"gpipe", "synchronous, all forwards then all backwards of a minibatch", true,
       WeightPolicy::kFlush, CheckFlush, EmitGPipe},
      {"interleaved", "synchronous 1F1B, several stages per device: smaller bubble, more messages",
       true, WeightPolicy::kFlush, CheckInterleaved, EmitInterleaved, 1, 64, PlaceInterleaved},
      {"zb_h1", "synchronous, weight gradients fill two thirds of the bubble", true,
       WeightPolicy::kSpeculative, CheckFlush, EmitZeroBubbleH1},
      {"zb_h2", "synchronous, weight gradients fill the bubble, twice the activations", true,
       WeightPolicy::kSpeculative, CheckFlush, EmitZeroBubbleH2},
      {"zb_v", "synchronous, two stages per device in a V: no bubble, equal memory everywhere",
       true, WeightPolicy::kSpeculative, CheckZeroBubbleV, EmitZeroBubbleV, 2, 2, PlaceZeroBubbleV},
      {"data_parallel", "synchronous, one stage whose replicas share each minibatch", true,
       WeightPolicy::kFlush, CheckDataParallel, EmitOneForwardOneBackward},
      {"sequential", "synchronous, one microbatch at a time: a reference without overlap", true,
       WeightPolicy::kFlush, CheckFlush, EmitSequential},
  };
  return *kAll;
}

absl::StatusOr<const ScheduleInfo*> FindSchedule(std::string_view name) {
  std::string known;
  for (const ScheduleInfo& info : AllSchedules()) {
    if (info.name == name) return &info;
    fmt::format_to(std::back_inserter(known), "{}{}", known.empty() ? "" : ", ", info.name);
  }
  return InvalidArgument("schedule '{}' is unknown; known are: {}", name, known);
}

absl::StatusOr<ScheduleTable> ScheduleInfo::build(const ScheduleShape& shape) const {
  PD_RETURN_IF_ERROR(check(shape));
  ScheduleTable table{.name = std::string(name), .policy = policy, .shape = shape, .programs = {}};
  for (const Peer& worker : WorkersOf(shape)) {
    table.programs.push_back(emit(shape, worker.stage, worker.replica));
  }
  return table;
}

}  // namespace pipedream
