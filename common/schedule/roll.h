// Finds the loops of a long program.
#pragma once

#include <span>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

// Blocks that give exactly `program` when walked. Greedy: at each place the loop with the most
// repetitions; what does not repeat stays as it is, in blocks with repeat 1. Time and memory are
// linear in the program's length for the periodic programs that builders make.
std::vector<ProgramBlock> RollInstructions(std::span<const Instruction> program);

// RollInstructions, and what the program needs at run time.
StageProgram RollProgram(const ScheduleShape& shape, WeightPolicy policy, const Peer& worker,
                         std::span<const Instruction> program);

}  // namespace pipedream
