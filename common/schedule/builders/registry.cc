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
      {"1f1b", "synchronous 1F1B with a flush per minibatch: few activations kept", true,
       WeightPolicy::kFlush, CheckFlush, EmitOneForwardOneBackward},
      {"gpipe", "synchronous, all forwards then all backwards of a minibatch", true,
       WeightPolicy::kFlush, CheckFlush, EmitGPipe},
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
  for (int s = 0; s < shape.stages(); ++s) {
    for (int q = 0; q < shape.replicas[s]; ++q) {
      table.programs.push_back(emit(shape, StageId(s), ReplicaId(q)));
    }
  }
  return table;
}

}  // namespace pipedream
