#include "common/schedule/simulate.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/link_rules.h"
#include "common/schedule/residency.h"
#include "common/schedule/stream.h"

namespace pipedream {
namespace {

// When a channel's messages arrive and when they are received, in order.
struct ChannelTimes {
  std::deque<double> arrivals;    // sent, not yet received
  std::deque<double> receptions;  // of the last `channel_slots` messages
  double free_s = 0;              // when the link can take the next message
};

// A collective in progress: R of a stage, or N.
struct Meeting {
  double last_arrival_s = 0;
  size_t arrived = 0;
  double end_s = 0;  // of the last complete one
};

bool UsesActivationBytes(Op op) { return op != Op::kSendGradient; }

// Each worker is a clock; LinkRules says who may go on, so an instruction is timed when everything
// that it waits for has been timed.
class Player {
 public:
  Player(const ScheduleShape& shape, std::vector<InstructionStream> streams,
         const SimulateOptions& options)
      : shape_(shape),
        options_(options),
        workers_(WorkersOf(shape)),
        index_(shape),
        streams_(std::move(streams)),
        rules_(shape, options.channel_slots > 0 ? options.channel_slots : 1 << 30),
        channels_(index_.size()),
        meetings_(shape.stages() + 1),
        joined_(workers_.size()),
        clocks_(workers_.size()),
        residency_(workers_.size()),
        retired_s_(shape.microbatches()) {
    for (const Peer& worker : workers_) result_.workers.push_back({.worker = worker});
  }

  absl::StatusOr<Simulation> Run() {
    std::deque<int> ready(workers_.size());
    std::iota(ready.begin(), ready.end(), 0);
    while (!ready.empty()) {
      int worker = ready.front();
      ready.pop_front();
      PD_RETURN_IF_ERROR(Advance(worker));
      for (int woken : rules_.TakeWoken()) ready.push_back(woken);
    }
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (streams_[w].done()) continue;
      return FailedPrecondition("stage {} replica {}: {}", workers_[w].stage, workers_[w].replica,
                                rules_.Blocked(static_cast<int>(w), streams_[w].Get()).text);
    }
    Summarize();
    return std::move(result_);
  }

 private:
  absl::Status Advance(int worker) {
    InstructionStream& stream = streams_[worker];
    for (; !stream.done(); stream.Next()) {
      const Instruction& instruction = stream.Get();
      LinkRules::Outcome outcome = rules_.Try(worker, instruction);
      if (outcome == LinkRules::Outcome::kFault) {
        return FailedPrecondition("stage {} replica {}: {}", workers_[worker].stage,
                                  workers_[worker].replica, rules_.fault().text);
      }
      const bool collective = instruction.op == Op::kReduce || instruction.op == Op::kNorm;
      if (collective) Arrive(worker, instruction);
      if (outcome == LinkRules::Outcome::kMustWait) return absl::OkStatus();
      Play(worker, instruction);
      residency_[worker].Apply(instruction);
    }
    rules_.End(worker);
    return absl::OkStatus();
  }

  Meeting& MeetingOf(int worker, Op op) {
    return op == Op::kNorm ? meetings_.back() : meetings_[workers_[worker].stage.value()];
  }

  // Notes a member's coming, once per meeting; the last one's coming ends it.
  void Arrive(int worker, const Instruction& instruction) {
    if (joined_[worker]) return;
    joined_[worker] = true;
    Meeting& meeting = MeetingOf(worker, instruction.op);
    meeting.last_arrival_s = std::max(meeting.last_arrival_s, clocks_[worker]);
    const size_t members = instruction.op == Op::kNorm
                               ? workers_.size()
                               : shape_.replicas[workers_[worker].stage.value()];
    if (++meeting.arrived < members) return;
    meeting.arrived = 0;
    meeting.end_s = std::exchange(meeting.last_arrival_s, 0.0);
  }

  // Moves the worker's clock over an instruction that may run.
  void Play(int worker, const Instruction& instruction) {
    const StageCosts& costs = options_.stages[workers_[worker].stage.value()];
    switch (instruction.op) {
      case Op::kForward:
        return Spend(worker, instruction, costs.forward_s);
      case Op::kBackward:
        Spend(worker, instruction, costs.backward_s);
        return Retire(worker, instruction);
      case Op::kBackwardInput:
        return Spend(worker, instruction, costs.backward_input_s);
      case Op::kBackwardWeight:
        Spend(worker, instruction, costs.backward_s - costs.backward_input_s);
        return Retire(worker, instruction);
      case Op::kEvaluate:
        return Spend(worker, instruction, costs.evaluate_s);
      case Op::kStep:
        return Spend(worker, instruction, costs.step_s);
      case Op::kReduce:
      case Op::kNorm:
        joined_[worker] = false;
        clocks_[worker] = std::max(clocks_[worker], MeetingOf(worker, instruction.op).end_s);
        return Spend(worker, instruction,
                     instruction.op == Op::kNorm ? costs.norm_s : costs.reduce_s);
      case Op::kPin:
      case Op::kUnpin:
        return;
      default:
        return IsSend(instruction.op) ? Send(worker, instruction) : Receive(worker, instruction);
    }
  }

  void Spend(int worker, const Instruction& instruction, double seconds) {
    Record(worker, instruction, clocks_[worker], clocks_[worker] + seconds);
    clocks_[worker] += seconds;
    result_.workers[worker].busy_s += seconds;
  }

  void Retire(int worker, const Instruction& instruction) {
    int64_t i = instruction.microbatch.value();
    if (workers_[worker].stage.value() == 0 && i < std::ssize(retired_s_)) {
      retired_s_[i] = clocks_[worker];
    }
  }

  void Send(int worker, const Instruction& instruction) {
    ChannelTimes& channel = channels_[index_.Of(workers_[worker], instruction.peer)];
    double& clock = clocks_[worker];
    // The slot that this message takes was given back when its last user was received.
    const size_t slots = options_.channel_slots;
    if (slots > 0 && channel.arrivals.size() + channel.receptions.size() >= slots) {
      clock = std::max(clock, channel.receptions.front());
      channel.receptions.pop_front();
    }
    double start = std::max(clock, channel.free_s);
    LinkCosts link;
    if (!options_.links.empty()) {
      link = options_.links[std::min(workers_[worker].stage, instruction.peer.stage).value()];
    }
    double bytes =
        UsesActivationBytes(instruction.op) ? link.activation_bytes : link.gradient_bytes;
    channel.free_s =
        start + (link.bandwidth_bytes_per_s > 0 ? bytes / link.bandwidth_bytes_per_s : 0.0);
    channel.arrivals.push_back(channel.free_s + link.latency_s);
    Record(worker, instruction, start, channel.arrivals.back());
  }

  void Receive(int worker, const Instruction& instruction) {
    ChannelTimes& channel = channels_[index_.Of(instruction.peer, workers_[worker])];
    clocks_[worker] = std::max(clocks_[worker], channel.arrivals.front());
    channel.arrivals.pop_front();
    if (options_.channel_slots > 0) channel.receptions.push_back(clocks_[worker]);
  }

  void Record(int worker, const Instruction& instruction, double start, double end) {
    if (options_.record_spans && end > start) {
      result_.spans.push_back({workers_[worker], instruction, start, end});
    }
  }

  void Summarize() {
    double busy = 0;
    result_.makespan_s = *std::max_element(clocks_.begin(), clocks_.end());
    const double makespan = result_.makespan_s;
    for (size_t w = 0; w < workers_.size(); ++w) {
      WorkerUse& use = result_.workers[w];
      busy += use.busy_s;
      use.bubble = makespan > 0 ? 1 - use.busy_s / makespan : 0;
      use.peak_in_flight = residency_[w].peak_in_flight();
      use.peak_versions = residency_[w].peak_versions();
    }
    if (makespan > 0) result_.bubble = 1 - busy / (makespan * static_cast<double>(workers_.size()));
    result_.steady_s_per_microbatch = SteadyRate();
  }

  double SteadyRate() const {
    int64_t period = shape_.microbatches_per_minibatch;
    for (int r : shape_.replicas) period = std::lcm(period, r);
    int64_t total = shape_.microbatches();
    int64_t from = total / 3 / period * period - 1;
    int64_t to = 2 * total / 3 / period * period - 1;
    if (from < 0 || to <= from) return result_.makespan_s / static_cast<double>(total);
    return (retired_s_[to] - retired_s_[from]) / static_cast<double>(to - from);
  }

  const ScheduleShape& shape_;
  const SimulateOptions& options_;
  std::vector<Peer> workers_;
  ChannelIndex index_;
  std::vector<InstructionStream> streams_;
  LinkRules rules_;
  std::vector<ChannelTimes> channels_;
  std::vector<Meeting> meetings_;  // by stage; the last is of all workers
  std::vector<bool> joined_;
  std::vector<double> clocks_;
  std::vector<Residency> residency_;
  std::vector<double> retired_s_;  // when stage 0 has done with a microbatch
  Simulation result_;
};

absl::Status CheckCosts(const ScheduleShape& shape, size_t workers,
                        const SimulateOptions& options) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (workers != WorkersOf(shape).size()) {
    return InvalidArgument("{} programs for {} workers", workers, WorkersOf(shape).size());
  }
  if (options.stages.size() != shape.replicas.size()) {
    return InvalidArgument("costs of {} stages given, the schedule has {}", options.stages.size(),
                           shape.stages());
  }
  if (!options.links.empty() && options.links.size() + 1 != shape.replicas.size()) {
    return InvalidArgument("costs of {} links given, the schedule has {} boundaries",
                           options.links.size(), shape.stages() - 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const ScheduleTable& table, const SimulateOptions& options) {
  PD_RETURN_IF_ERROR(CheckCosts(table.shape, table.programs.size(), options));
  return Player(table.shape, StreamsOf(table), options).Run();
}

absl::StatusOr<Simulation> Simulate(const std::vector<StageProgram>& programs,
                                    const SimulateOptions& options) {
  if (programs.empty()) return InvalidArgument("no programs to simulate");
  PD_RETURN_IF_ERROR(CheckCosts(programs[0].shape, programs.size(), options));
  return Player(programs[0].shape, StreamsOf(programs), options).Run();
}

}  // namespace pipedream
