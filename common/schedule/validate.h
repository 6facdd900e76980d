// Proves that a lowered schedule is right before anything runs. The rules:
//   V1  each microbatch has one F and one B (or I, then W) on each stage; evaluations one E
//   V2  order: receive, compute, send; F before B; an update after all its backwards and before any
//       backward of the next
//   V3  B reads the version its F read, and each reads the version that the weight policy says
//   V4  versions are made once, in order, and read only while alive
//   V5  sends and receives match one to one, in the same order on each channel
//   V6  collectives come in the same order on all members
//   V7  activation slots: written while free, freed once, none left at the end
//   V8  peak memory within the device's
//   V9  no deadlock with bounded channels
//   V10 staleness within the warm-up depth
// A fault is kInvalidArgument; its message begins with the rule, names stage, replica and
// instruction, and shows the neighbourhood as a grid with the cell marked.
// Pure functions. Time linear in the number of instructions; memory two bits per microbatch.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

// For rule V8, per worker of the stage, in bytes.
struct StageMemory {
  int64_t version_bytes = 0;     // one version of the parameters
  int64_t activation_bytes = 0;  // what one microbatch in flight keeps
  int64_t fixed_bytes = 0;       // gradients, optimizer state, buffers, workspace
  int64_t limit_bytes = 0;       // what the device has
};

struct ValidateOptions {
  int channel_slots = 2;            // messages that a channel holds before its sender waits
  std::vector<StageMemory> memory;  // one per stage; empty: V8 is not checked
};

absl::Status ValidateTable(const ScheduleTable& table, const ValidateOptions& options = {});

// The same for rolled programs, one per worker in WorkerIndex order, all of one shape and policy.
absl::Status ValidatePrograms(const std::vector<StageProgram>& programs,
                              const ValidateOptions& options = {});

// What one worker can check of its own slice: all rules but the matching between workers (V5, V6,
// V9), and that the slots and versions that the program declares suffice.
absl::Status ValidateProgram(const StageProgram& program, const ValidateOptions& options = {});

}  // namespace pipedream
