// Runs a job's schedule as workers run it, and notes when everything happened.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "bench/chain_job.h"
#include "common/schedule/stage_program.h"
#include "worker/engine/span_recorder.h"

namespace pipedream {

struct RealRunOptions {
  std::string schedule;
  int devices = 2;
  int microbatches = 8;  // of a minibatch
  int minibatches = 6;
  int microbatch_size = 2;
  std::string transport = "shm";
  Duration pace{};  // of convolutions, see MakePacedBackend; 0: as fast as they are
};

struct RealRun {
  std::vector<StageProgram> programs;
  std::vector<std::vector<RecordedSpan>> workers;  // in the order of WorkersOf
  std::vector<Span> spans;                         // of all of them, since the start
};

// A thread per worker, with an executor, a kernel backend of one thread, and a connector of its
// own; all channels go through `transport`. REQUIRES: the job has samples for all minibatches.
absl::StatusOr<RealRun> RunForReal(const ChainJob& job, const RealRunOptions& options);

}  // namespace pipedream
