#include "common/schedule/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "common/base/status.h"
#include "common/schedule/simulate.h"

namespace pipedream {
namespace {

char CellOf(const Instruction& instruction) {
  int64_t i = instruction.microbatch.value();
  switch (instruction.op) {
    case Op::kForward:
      return static_cast<char>('0' + i % 10);
    case Op::kEvaluate:
      return 'e';
    case Op::kBackwardWeight:
      return static_cast<char>('A' + i % 26);
    default:
      return static_cast<char>('a' + i % 26);
  }
}

}  // namespace

absl::StatusOr<std::string> DrawGrid(const ScheduleTable& table) {
  SimulateOptions options;
  options.record_spans = true;
  options.stages.assign(table.shape.stages(), {.forward_s = 1,
                                               .backward_s = 2,
                                               .backward_input_s = 1,
                                               .step_s = 0,
                                               .reduce_s = 0,
                                               .norm_s = 0,
                                               .evaluate_s = 1});
  PD_ASSIGN_OR_RETURN(Simulation simulation, Simulate(table, options));
  std::vector<std::string> rows(simulation.workers.size(),
                                std::string(std::lround(simulation.makespan_s), '.'));
  for (const Span& span : simulation.spans) {
    if (!IsCompute(span.instruction.op)) continue;
    std::string& row = rows[WorkerIndex(table.shape, span.worker)];
    long start = std::lround(span.start_s);
    std::fill(row.begin() + start, row.begin() + std::lround(span.end_s), CellOf(span.instruction));
  }
  const bool replicated = std::any_of(table.shape.replicas.begin(), table.shape.replicas.end(),
                                      [](int r) { return r > 1; });
  std::string text;
  for (size_t w = 0; w < rows.size(); ++w) {
    const WorkerUse& use = simulation.workers[w];
    std::string label = replicated ? fmt::format("s{}.{}", use.worker.stage, use.worker.replica)
                                   : fmt::format("s{}", use.worker.stage);
    int versions = 0;
    for (const StageUse& stage : use.stages) versions = std::max(versions, stage.peak_versions);
    fmt::format_to(std::back_inserter(text), "{} {}  weight versions alive: {}\n", label, rows[w],
                   versions);
  }
  return text;
}

}  // namespace pipedream
