#include "common/schedule/roll.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/residency.h"
#include "common/schedule/schedules.h"

namespace pipedream {
namespace {

constexpr size_t kNone = ~size_t{0};
constexpr size_t kWindow = 8;         // instructions that must look alike to try a period
constexpr int kMaxTries = 8;          // periods tried at one place
constexpr size_t kMaxBody = 1 << 14;  // instructions of the longest loop body looked for
constexpr size_t kSmallBody = 64;     // loops with such a body are always taken
constexpr size_t kMinSaved = 8;       // a loop that saves less is not worth a block

constexpr size_t kVersionClass = 3;  // after the three counters

// The numbers that grow in a loop, each with its class: the microbatch by Counter, and the version.
size_t ClassOf(Op op) { return static_cast<size_t>(CounterOf(op)); }

// Strides of a loop, found while comparing; a class that has not been seen fits anything.
class Strides {
 public:
  // True if `later` is `earlier` one iteration on.
  bool Fit(const Instruction& earlier, const Instruction& later) {
    if (earlier.op != later.op || earlier.slot != later.slot || earlier.peer != later.peer ||
        earlier.chunk != later.chunk) {
      return false;
    }
    if (CounterOf(earlier.op) == Counter::kNone) {
      if (earlier.microbatch != later.microbatch) return false;
    } else if (!FitNumber(ClassOf(earlier.op), later.microbatch - earlier.microbatch)) {
      return false;
    }
    if (earlier.version == kNoVersion || later.version == kNoVersion) {
      return earlier.version == later.version;
    }
    return FitNumber(kVersionClass, later.version - earlier.version);
  }
  int64_t Get(size_t index) const { return strides_[index].value_or(0); }

 private:
  bool FitNumber(size_t index, int64_t difference) {
    if (!strides_[index]) strides_[index] = difference;
    return *strides_[index] == difference;
  }
  std::array<std::optional<int64_t>, 4> strides_;
};

struct Loop {
  size_t body = 0;
  size_t repeat = 0;
  Strides strides;
  size_t size() const { return body * repeat; }
};

// For each place the next place where the following kWindow instructions look the same, with
// numbers taken relative to the one before of their class; kNone if there is none.
class Lookalikes {
 public:
  explicit Lookalikes(std::span<const Instruction> program) : next_(program.size(), kNoIndex) {
    const std::vector<uint64_t> tokens = Tokens(program);
    uint64_t power = 1;
    for (size_t k = 0; k < kWindow; ++k) power *= kBase;
    absl::flat_hash_map<uint64_t, uint32_t> latest;
    uint64_t hash = 0;  // of tokens[k, k + kWindow)
    for (size_t k = program.size(); k-- > 0;) {
      hash = hash * kBase + tokens[k];
      if (k + kWindow < tokens.size()) hash -= power * tokens[k + kWindow];
      auto [entry, fresh] = latest.try_emplace(hash, static_cast<uint32_t>(k));
      if (!fresh) next_[k] = std::exchange(entry->second, static_cast<uint32_t>(k));
    }
  }
  size_t Next(size_t place) const { return next_[place] == kNoIndex ? kNone : next_[place]; }

 private:
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15;
  static constexpr uint32_t kNoIndex = ~uint32_t{0};

  static std::vector<uint64_t> Tokens(std::span<const Instruction> program) {
    std::vector<uint64_t> tokens;
    tokens.reserve(program.size());
    std::array<int64_t, 4> previous{};
    auto step = [&](size_t index, int64_t value) {
      return static_cast<uint64_t>(value - std::exchange(previous[index], value));
    };
    for (const Instruction& i : program) {
      uint64_t token = static_cast<uint64_t>(i.op);
      auto mix = [&token](uint64_t value) {
        token = (token ^ (value + 0x7F)) * 0xFF51AFD7ED558CCD;
      };
      mix(static_cast<uint64_t>(i.slot));
      mix(static_cast<uint64_t>(i.chunk));
      mix(static_cast<uint64_t>(i.peer.stage.value()) << 32 |
          static_cast<uint32_t>(i.peer.replica.value()));
      if (CounterOf(i.op) != Counter::kNone) mix(step(ClassOf(i.op), i.microbatch.value()));
      if (i.version != kNoVersion) mix(step(kVersionClass, i.version.value()));
      tokens.push_back(token ^ token >> 32);
    }
    return tokens;
  }

  std::vector<uint32_t> next_;
};

class Roller {
 public:
  explicit Roller(std::span<const Instruction> program)
      : program_(program), lookalikes_(program), budget_(64 * program.size() + 10'000'000) {}

  std::vector<ProgramBlock> Run() {
    for (size_t place = 0; place < program_.size();) {
      Loop loop = BestLoop(place, program_.size());
      if (loop.repeat < 2) {
        ++place;
        continue;
      }
      place = ExtendBackward(place, &loop);
      EmitStraight(place);
      EmitLoop(place, loop);
      straight_from_ = place += loop.size();
    }
    EmitStraight(program_.size());
    return std::move(blocks_);
  }

 private:
  // The loop with the most repetitions in [place, end) that begins at `place`.
  Loop BestLoop(size_t place, size_t end) {
    Loop best;
    size_t candidate = lookalikes_.Next(place);
    for (int tries = 0; tries < kMaxTries && candidate != kNone && candidate < end; ++tries) {
      size_t body = candidate - place;
      if (body > kMaxBody || budget_ == 0) break;
      Loop loop = Measure(place, body, end);
      bool repeats = loop.repeat >= 2;
      if (repeats && loop.repeat > best.repeat && IsWorthwhile(place, loop)) best = loop;
      // Nothing can repeat more often than a loop that reaches half way to the end.
      if (best.repeat >= 2 && 2 * best.size() >= end - place) break;
      // Inside the loop there are only multiples of its body; look for periods beyond it.
      candidate = lookalikes_.Next(repeats ? place + loop.size() - loop.body : candidate);
    }
    return best;
  }

  // A long body that contains loops itself may take more room than its iterations one by one, since
  // loops do not nest.
  bool IsWorthwhile(size_t place, const Loop& loop) {
    if (loop.size() - loop.body < kMinSaved) return false;
    return loop.body <= kSmallBody ||
           loop.body <= loop.repeat * RolledSize(place, place + loop.body);
  }

  // How many instructions [begin, end) would take by itself.
  size_t RolledSize(size_t begin, size_t end) {
    budget_ -= std::min(budget_, end - begin);
    size_t size = 0;
    for (size_t place = begin; place < end;) {
      Loop loop = BestLoop(place, end);
      size += std::max<size_t>(loop.body, 1);
      place += std::max<size_t>(loop.size(), 1);
    }
    return size;
  }

  // How often the `body` instructions at `place` repeat from there on, up to `end`.
  Loop Measure(size_t place, size_t body, size_t end) {
    Loop loop{.body = body, .repeat = 1, .strides = {}};
    size_t k = place + body;
    while (k < end && loop.strides.Fit(program_[k - body], program_[k])) ++k;
    loop.repeat = (k - place) / body;
    if (loop.repeat < 2) budget_ -= std::min(budget_, k - place - body + 1);
    return loop;
  }

  // A loop may begin earlier than its first lookalike: numbers there have no like before them.
  size_t ExtendBackward(size_t place, Loop* loop) {
    const size_t found = place;
    while (place > straight_from_ &&
           loop->strides.Fit(program_[place - 1], program_[place - 1 + loop->body])) {
      --place;
    }
    if (place < found) *loop = Measure(place, loop->body, program_.size());
    return place;
  }

  void EmitStraight(size_t end) {
    if (straight_from_ == end) return;
    ProgramBlock block;
    block.body.assign(program_.begin() + straight_from_, program_.begin() + end);
    blocks_.push_back(std::move(block));
  }

  void EmitLoop(size_t place, const Loop& loop) {
    ProgramBlock block;
    block.repeat = static_cast<int64_t>(loop.repeat);
    block.microbatch_stride = loop.strides.Get(static_cast<size_t>(Counter::kTraining));
    block.evaluation_stride = loop.strides.Get(static_cast<size_t>(Counter::kEvaluation));
    block.update_stride = loop.strides.Get(static_cast<size_t>(Counter::kUpdate));
    block.version_stride = loop.strides.Get(kVersionClass);
    block.body.assign(program_.begin() + place, program_.begin() + place + loop.body);
    blocks_.push_back(std::move(block));
  }

  std::span<const Instruction> program_;
  Lookalikes lookalikes_;
  size_t budget_;  // comparisons left that may lead nowhere
  size_t straight_from_ = 0;
  std::vector<ProgramBlock> blocks_;
};

}  // namespace

std::vector<ProgramBlock> RollInstructions(std::span<const Instruction> program) {
  return Roller(program).Run();
}

StageProgram RollProgram(const ScheduleShape& shape, WeightPolicy policy, const Peer& worker,
                         std::span<const Instruction> program) {
  StageProgram result{.stage = worker.stage,
                      .replica = worker.replica,
                      .shape = shape,
                      .policy = policy,
                      .blocks = RollInstructions(program),
                      .needs = {}};
  std::vector<Residency> residency;
  for (StageId stage : result.stages()) {
    residency.emplace_back(shape, policy, stage);
    result.needs.emplace_back();
  }
  for (const Instruction& instruction : program) {
    if (instruction.op == Op::kValidate) {
      for (StageNeeds& needs : result.needs) needs.undo = true;
    }
    if (IsOfWorker(instruction.op)) continue;
    residency[instruction.chunk].Apply(instruction);
    int32_t& slots = result.needs[instruction.chunk].slots;
    slots = std::max(slots, instruction.slot + 1);
  }
  for (size_t chunk = 0; chunk < residency.size(); ++chunk) {
    result.needs[chunk].versions = residency[chunk].peak_versions();
    result.needs[chunk].gradients = residency[chunk].peak_gradients();
  }
  return result;
}

absl::StatusOr<StageProgram> Roll(const ScheduleTable& table, const Peer& worker) {
  PD_RETURN_IF_ERROR(Validate(table.shape));
  const std::vector<Peer> workers = WorkersOf(table.shape);
  auto found = std::find(workers.begin(), workers.end(), worker);
  if (found == workers.end()) {
    return InvalidArgument("schedule '{}' has no worker of stage {} replica {}", table.name,
                           worker.stage, worker.replica);
  }
  const size_t index = found - workers.begin();
  if (index >= table.programs.size()) {
    return InvalidArgument("schedule '{}' has {} programs, none for stage {} replica {}",
                           table.name, table.workers(), worker.stage, worker.replica);
  }
  return RollProgram(table.shape, table.policy, worker, table.programs[index]);
}

std::vector<Instruction> Unroll(const StageProgram& program) {
  std::vector<Instruction> result;
  result.reserve(program.instruction_count());
  for (ProgramCursor cursor(program); !cursor.done(); cursor.Next()) {
    result.push_back(cursor.Get());
  }
  return result;
}

}  // namespace pipedream
