#include "common/schedule/stage_program.h"

namespace pipedream {

int64_t StageProgram::instruction_count() const {
  int64_t count = 0;
  for (const ProgramBlock& block : blocks) {
    count += block.repeat * static_cast<int64_t>(block.body.size());
  }
  return count;
}

Instruction ProgramCursor::Get() const {
  const ProgramBlock& block = program_->blocks[block_];
  Instruction instruction = block.body[index_];
  if (iteration_ == 0) return instruction;
  int64_t stride = 0;
  switch (CounterOf(instruction.op)) {
    case Counter::kTraining:
      stride = block.microbatch_stride;
      break;
    case Counter::kEvaluation:
      stride = block.evaluation_stride;
      break;
    case Counter::kUpdate:
      stride = block.update_stride;
      break;
    case Counter::kNone:
      break;
  }
  instruction.microbatch = instruction.microbatch + iteration_ * stride;
  if (instruction.version != kNoVersion) {
    instruction.version = instruction.version + iteration_ * block.version_stride;
  }
  return instruction;
}

void ProgramCursor::Next() {
  if (++index_ < program_->blocks[block_].body.size()) return;
  index_ = 0;
  if (++iteration_ < program_->blocks[block_].repeat) return;
  iteration_ = 0;
  ++block_;
  SkipEmpty();
}

void ProgramCursor::SkipEmpty() {
  while (!done() &&
         (program_->blocks[block_].body.empty() || program_->blocks[block_].repeat <= 0)) {
    ++block_;
  }
}

}  // namespace pipedream
