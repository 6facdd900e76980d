// Spans of time on workers, as the simulator predicts and the executor measures them, and their
// picture for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <span>
#include <string>

#include "common/schedule/instruction.h"

namespace pipedream {

// One instruction's time on one worker. Of a send: on paper from its start on the link to its
// arrival, in a real run what the sender did for it.
struct Span {
  Peer worker;
  Instruction instruction;
  double start_s = 0;
  double end_s = 0;
};

// Trace Event JSON ("traceEvents"): a process per stage; a thread per replica for what it computes
// and one for what it sends. Times in microseconds.
std::string ChromeTrace(std::span<const Span> spans);

}  // namespace pipedream
