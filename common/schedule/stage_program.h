// One worker's slice of a lowered, validated table: a rolled list of instructions, so that a run of
// millions of microbatches stays small, plus what must be allocated before the first step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "common/schedule/schedule_table.h"

namespace pipedream {

// `body` repeated; iteration k adds k * stride to microbatch numbers (k * version_stride to
// versions, k * update_stride to update numbers, k * evaluation_stride to evaluation microbatches).
struct ProgramBlock {
  int64_t repeat = 1;
  int64_t microbatch_stride = 0;
  int64_t evaluation_stride = 0;
  int64_t update_stride = 0;
  int64_t version_stride = 0;
  std::vector<Instruction> body;
  bool operator==(const ProgramBlock&) const = default;
};

// What one of the worker's stages must have room for.
struct StageNeeds {
  int32_t slots = 1;      // activation slots: microbatches in flight at most
  int32_t versions = 1;   // weight versions alive at most
  int32_t gradients = 1;  // gradient sums: 2 where an update waits while the next one is summed
  bool undo = false;      // a copy of the optimizer's state, to undo updates
  bool operator==(const StageNeeds&) const = default;
};

struct StageProgram {
  StageId stage;  // the first of the worker's stages
  ReplicaId replica;
  ScheduleShape shape;
  WeightPolicy policy = WeightPolicy::kStash;
  std::vector<ProgramBlock> blocks;
  std::vector<StageNeeds> needs;  // by chunk
  // Messages that the channel of an edge between neighbour stages must be able to hold, or the run
  // would deadlock (rule V9); see ChannelSlots.
  int32_t channel_slots = 2;
  bool operator==(const StageProgram&) const = default;

  std::vector<StageId> stages() const { return StagesOn(shape, DeviceOf(shape, stage)); }
  int64_t instruction_count() const;
};

// Messages that the channel between two stages holds: one that skips stages holds as many as the
// channels that it spares together.
inline int ChannelSlots(int channel_slots, StageId a, StageId b) {
  return channel_slots * std::max(std::abs(a.value() - b.value()), 1);
}

// Walks a program without unrolling it. Cheap to copy.
class ProgramCursor {
 public:
  explicit ProgramCursor(const StageProgram& program) : program_(&program) { SkipEmpty(); }
  bool done() const { return block_ == program_->blocks.size(); }
  // REQUIRES, for both: !done().
  Instruction Get() const;
  void Next();

 private:
  void SkipEmpty();
  const StageProgram* program_;
  size_t block_ = 0;
  int64_t iteration_ = 0;
  size_t index_ = 0;
};

}  // namespace pipedream
