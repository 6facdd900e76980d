#include "common/schedule/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/link_rules.h"
#include "common/schedule/residency.h"
#include "common/schedule/stream.h"
#include "common/schedule/worker_rules.h"

namespace pipedream {
namespace {

constexpr int64_t kCellsAround = 10;

// The last digit for forwards, "a" .. "z" for backwards, "A" .. "Z" for their second halves.
std::string Cell(const Instruction& instruction) {
  int64_t i = instruction.microbatch.value();
  switch (instruction.op) {
    case Op::kForward:
      return std::string(1, static_cast<char>('0' + i % 10));
    case Op::kBackward:
    case Op::kBackwardInput:
      return std::string(1, static_cast<char>('a' + i % 26));
    case Op::kBackwardWeight:
      return std::string(1, static_cast<char>('A' + i % 26));
    case Op::kEvaluate:
      return "*";
    case Op::kStep:
      return "|";
    default:
      return "";
  }
}

// Compute cells of one worker around `position`; the cell there stands in brackets (for a send or
// receive: the instruction itself).
std::string CellsAround(InstructionStream stream, int64_t position, bool mark) {
  std::string line;
  while (!stream.done() && stream.position() < position - 3 * kCellsAround) stream.Next();
  if (stream.position() > 0) line += "..";
  for (; !stream.done() && stream.position() < position + 3 * kCellsAround; stream.Next()) {
    if (mark && stream.position() == position) {
      line += fmt::format("[{}]", Format(stream.Get()));
    } else {
      line += Cell(stream.Get());
    }
  }
  if (mark && position >= stream.position()) line += "[end]";
  if (!stream.done()) line += "..";
  return line;
}

// The instructions of one worker around `position`, in full.
std::string TextAround(InstructionStream stream, int64_t position) {
  std::string line;
  while (!stream.done() && stream.position() < position - kCellsAround / 2) stream.Next();
  for (; !stream.done() && stream.position() <= position + kCellsAround / 2; stream.Next()) {
    std::string text = Format(stream.Get());
    line += stream.position() == position ? fmt::format(" [{}]", text) : " " + text;
  }
  return line;
}

// First each worker by itself, then all side by side by abstract execution.
class Validation {
 public:
  Validation(const ScheduleShape& shape, WeightPolicy policy,
             std::vector<InstructionStream> streams, const ValidateOptions& options)
      : shape_(shape),
        policy_(policy),
        options_(options),
        workers_(WorkersOf(shape)),
        start_(std::move(streams)) {}

  absl::Status Run() {
    for (size_t w = 0; w < workers_.size(); ++w) PD_RETURN_IF_ERROR(RunAlone(w).status());
    return RunTogether();
  }

  // The rules of one worker alone; what each of its stages held.
  absl::StatusOr<std::vector<Residency>> RunAlone(size_t worker) const {
    WorkerRules rules(shape_, policy_, workers_[worker], options_.memory);
    InstructionStream stream = start_[worker];
    for (; !stream.done(); stream.Next()) {
      if (auto fault = rules.Apply(stream.Get())) return Report(worker, stream.position(), *fault);
    }
    if (auto fault = rules.Finish()) return Report(worker, stream.position(), *fault);
    std::vector<Residency> held;
    const size_t chunks = StagesOn(shape_, DeviceOf(shape_, workers_[worker].stage)).size();
    for (size_t k = 0; k < chunks; ++k) held.push_back(rules.residency(static_cast<int>(k)));
    return held;
  }

 private:
  absl::Status RunTogether() {
    streams_ = start_;
    LinkRules links(shape_, policy_, std::max(1, options_.channel_slots));
    std::deque<int> ready(workers_.size());
    for (size_t w = 0; w < ready.size(); ++w) ready[w] = static_cast<int>(w);
    while (!ready.empty()) {
      int worker = ready.front();
      ready.pop_front();
      PD_RETURN_IF_ERROR(Advance(links, worker));
      for (int woken : links.TakeWoken()) ready.push_back(woken);
    }
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (!streams_[w].done()) return ReportBlocked(links, w);
    }
    if (auto fault = links.Finish()) {
      return Report(fault->first, streams_[fault->first].position(), fault->second);
    }
    return absl::OkStatus();
  }

  // Runs `worker` until it must wait or ends.
  absl::Status Advance(LinkRules& links, int worker) {
    InstructionStream& stream = streams_[worker];
    for (; !stream.done(); stream.Next()) {
      switch (links.Try(worker, stream.Get())) {
        case LinkRules::Outcome::kMustWait:
          return absl::OkStatus();
        case LinkRules::Outcome::kFault:
          return Report(worker, stream.position(), links.fault());
        case LinkRules::Outcome::kDone:
          break;
      }
    }
    links.End(worker);
    return absl::OkStatus();
  }

  // Nobody can go on and `first` is the first who would: the most telling reason.
  absl::Status ReportBlocked(const LinkRules& links, size_t first) const {
    for (size_t w = first; w < workers_.size(); ++w) {
      if (streams_[w].done()) continue;
      Fault fault = links.Blocked(static_cast<int>(w), streams_[w].Get());
      if (fault.rule != "V9") return Report(w, streams_[w].position(), fault);
    }
    return Report(first, streams_[first].position(),
                  links.Blocked(static_cast<int>(first), streams_[first].Get()));
  }

  absl::Status Report(size_t worker, int64_t position, const Fault& fault) const {
    const Peer& at = workers_[worker];
    std::string text = fmt::format("{}: stage {} replica {}, instruction {}: {}\n ", fault.rule,
                                   at.stage, at.replica, position, fault.text);
    text += TextAround(start_[worker], position);
    constexpr size_t kMaxRows = 16;
    size_t first = worker < kMaxRows / 2 ? 0 : worker - kMaxRows / 2;
    for (size_t w = first; w < std::min(workers_.size(), first + kMaxRows); ++w) {
      int64_t there = streams_.empty() || w == worker ? position : streams_[w].position();
      fmt::format_to(std::back_inserter(text), "\n{} s{}.r{} {}", w == worker ? '>' : ' ',
                     workers_[w].stage, workers_[w].replica,
                     CellsAround(start_[w], there, w == worker));
    }
    return absl::InvalidArgumentError(text);
  }

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  const ValidateOptions& options_;
  std::vector<Peer> workers_;
  std::vector<InstructionStream> start_;
  std::vector<InstructionStream> streams_;  // where each stands, once they run together
};

absl::Status CheckOptions(const ScheduleShape& shape, const ValidateOptions& options) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (!options.memory.empty() && options.memory.size() != shape.replicas.size()) {
    return InvalidArgument("memory: {} entries for {} stages", options.memory.size(),
                           shape.stages());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTable(const ScheduleTable& table, const ValidateOptions& options) {
  PD_RETURN_IF_ERROR(CheckOptions(table.shape, options));
  size_t workers = WorkersOf(table.shape).size();
  if (table.programs.size() != workers) {
    return InvalidArgument("V1: schedule '{}' has {} programs, its shape {} workers", table.name,
                           table.programs.size(), workers);
  }
  return Validation(table.shape, table.policy, StreamsOf(table), options).Run();
}

absl::Status ValidatePrograms(const std::vector<StageProgram>& programs,
                              const ValidateOptions& options) {
  if (programs.empty()) return InvalidArgument("V1: no programs");
  const ScheduleShape& shape = programs[0].shape;
  PD_RETURN_IF_ERROR(CheckOptions(shape, options));
  std::vector<Peer> workers = WorkersOf(shape);
  if (programs.size() != workers.size()) {
    return InvalidArgument("V1: {} programs, the shape has {} workers", programs.size(),
                           workers.size());
  }
  for (size_t w = 0; w < workers.size(); ++w) {
    const StageProgram& program = programs[w];
    if (program.shape != shape || program.policy != programs[0].policy ||
        Peer{program.stage, program.replica} != workers[w]) {
      return InvalidArgument("V1: program {} is of stage {} replica {} or of another run", w,
                             program.stage, program.replica);
    }
  }
  return Validation(shape, programs[0].policy, StreamsOf(programs), options).Run();
}

absl::Status ValidateProgram(const StageProgram& program, const ValidateOptions& options) {
  PD_RETURN_IF_ERROR(CheckOptions(program.shape, options));
  std::vector<Peer> workers = WorkersOf(program.shape);
  auto worker = std::find(workers.begin(), workers.end(), Peer{program.stage, program.replica});
  if (worker == workers.end()) {
    return InvalidArgument("V1: the run has no stage {} replica {}", program.stage,
                           program.replica);
  }
  size_t index = worker - workers.begin();
  // The other workers' programs are not at hand; empty rows stand in for them.
  std::vector<InstructionStream> streams(workers.size(),
                                         InstructionStream(std::span<const Instruction>()));
  streams[index] = InstructionStream(program);
  Validation validation(program.shape, program.policy, std::move(streams), options);
  PD_ASSIGN_OR_RETURN(std::vector<Residency> held, validation.RunAlone(index));
  if (program.needs.size() != held.size()) {
    return InvalidArgument("V1: the program declares the needs of {} stages, the worker has {}",
                           program.needs.size(), held.size());
  }
  std::vector<int32_t> slots(held.size(), 1);
  bool validates = false;
  for (const ProgramBlock& block : program.blocks) {
    for (const Instruction& i : block.body) {
      slots[i.chunk] = std::max(slots[i.chunk], i.slot + 1);
      validates = validates || i.op == Op::kValidate;
    }
  }
  for (size_t chunk = 0; chunk < held.size(); ++chunk) {
    const StageNeeds& needs = program.needs[chunk];
    if (needs.slots < slots[chunk]) {
      return InvalidArgument("V7: the program declares {} activation slots and uses {}",
                             needs.slots, slots[chunk]);
    }
    if (needs.versions < held[chunk].peak_versions()) {
      return InvalidArgument("V4: the program declares {} weight versions and uses {}",
                             needs.versions, held[chunk].peak_versions());
    }
    if (validates && !needs.undo) {
      return InvalidArgument("V2: the program undoes updates and declares no room for that");
    }
    if (needs.gradients < held[chunk].peak_gradients()) {
      return InvalidArgument("V2: the program declares {} gradient sums and uses {}",
                             needs.gradients, held[chunk].peak_gradients());
    }
  }
  return absl::OkStatus();
}

}  // namespace pipedream
