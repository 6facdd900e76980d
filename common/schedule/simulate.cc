#include "common/schedule/simulate.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>
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
  std::deque<double> receptions;  // of as many of the last messages as the channel has slots
};

bool UsesActivationBytes(Op op) { return op != Op::kSendGradient; }

// Each worker is a clock; LinkRules says who may go on, so an instruction is timed when everything
// that it waits for has been timed.
class Player {
 public:
  Player(const ScheduleShape& shape, WeightPolicy policy, std::vector<InstructionStream> streams,
         const SimulateOptions& options)
      : shape_(shape),
        policy_(policy),
        options_(options),
        workers_(WorkersOf(shape)),
        edges_(EdgesOf(shape)),
        index_(shape),
        streams_(std::move(streams)),
        rules_(shape, policy, options.channel_slots > 0 ? options.channel_slots : 1 << 20),
        channels_(index_.size()),
        link_free_s_(workers_.size() * workers_.size()),
        last_arrival_s_(rules_.groups()),
        out_free_s_(options.ports.size()),
        in_free_s_(options.ports.size()),
        joined_(workers_.size()),
        clocks_(workers_.size()),
        retired_s_(shape.microbatches()) {
    for (const Peer& worker : workers_) {
      stages_.push_back(StagesOn(shape, DeviceOf(shape, worker.stage)));
      residency_.emplace_back();
      WorkerUse use{.worker = worker, .stages = {}};
      for (StageId stage : stages_.back()) {
        residency_.back().emplace_back(shape, policy, stage);
        use.stages.push_back({.stage = stage});
      }
      result_.workers.push_back(std::move(use));
    }
  }

  absl::StatusOr<Simulation> Run() {
    // The worker whose clock is least goes on, by one instruction: messages that share a port are
    // met in the order of their sending.
    using Turn = std::pair<double, int>;
    std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready;
    std::vector<bool> queued(workers_.size());
    const auto queue = [&](int worker) {
      if (!queued[worker]) ready.emplace(clocks_[worker], worker);
      queued[worker] = true;
    };
    for (size_t w = 0; w < workers_.size(); ++w) queue(static_cast<int>(w));
    while (!ready.empty()) {
      const int worker = ready.top().second;
      ready.pop();
      queued[worker] = false;
      PD_ASSIGN_OR_RETURN(const bool more, Advance(worker));
      for (int woken : rules_.TakeWoken()) queue(woken);
      if (more) queue(worker);
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
  // Plays one instruction; false if the worker must wait, or has done with all.
  absl::StatusOr<bool> Advance(int worker) {
    InstructionStream& stream = streams_[worker];
    if (!stream.done()) {
      const Instruction& instruction = stream.Get();
      LinkRules::Outcome outcome = rules_.Try(worker, instruction);
      if (outcome == LinkRules::Outcome::kFault) {
        return FailedPrecondition("stage {} replica {}: {}", workers_[worker].stage,
                                  workers_[worker].replica, rules_.fault().text);
      }
      if (instruction.op == Op::kReduce) Arrive(worker, instruction);
      if (outcome == LinkRules::Outcome::kMustWait) return false;
      Play(worker, instruction);
      Hold(worker, instruction);
      stream.Next();
    }
    if (!stream.done()) return true;
    rules_.End(worker);
    return false;
  }

  // Notes a member's coming to a collective, once.
  void Arrive(int worker, const Instruction& instruction) {
    if (joined_[worker]) return;
    joined_[worker] = true;
    std::vector<double>& times = last_arrival_s_[rules_.GroupOf(worker, instruction)];
    const size_t number = instruction.microbatch.value();
    if (times.size() <= number) times.resize(number + 1);
    times[number] = std::max(times[number], clocks_[worker]);
  }

  // Moves the clock on to the end of the collectives that the instruction waits for.
  void WaitForCollectives(int worker, const Instruction& instruction, double norm_s) {
    for (const LinkRules::Wait& wait : rules_.WaitsOf(worker, instruction)) {
      const bool norm = wait.group == rules_.groups() - 1;
      clocks_[worker] =
          std::max(clocks_[worker], last_arrival_s_[wait.group][wait.number] + (norm ? norm_s : 0));
    }
  }

  void Hold(int worker, const Instruction& instruction) {
    if (IsOfWorker(instruction.op)) return;
    std::vector<Residency>& held = residency_[worker];
    held[instruction.chunk].Apply(instruction);
    if (instruction.op != Op::kForward) return;
    WorkerUse& use = result_.workers[worker];
    int in_flight = 0;
    for (const Residency& one : held) in_flight += one.in_flight();
    use.peak_in_flight = std::max(use.peak_in_flight, in_flight);
    StageUse& stage = use.stages[instruction.chunk];
    stage.staleness =
        std::max(stage.staleness, UpdateOf(shape_, policy_, stage.stage, instruction.microbatch) -
                                      instruction.version.value());
  }

  // Moves the worker's clock over an instruction that may run.
  void Play(int worker, const Instruction& instruction) {
    const int stage = stages_[worker][instruction.chunk].value();
    const StageCosts& costs = options_.replicas.empty()
                                  ? options_.stages[stage]
                                  : options_.replicas[stage][workers_[worker].replica.value()];
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
        WaitForCollectives(worker, instruction, costs.norm_s);
        return Spend(worker, instruction, costs.step_s);
      case Op::kReduce:
        joined_[worker] = false;
        WaitForCollectives(worker, instruction, 0);
        return Spend(worker, instruction, costs.reduce_s);
      case Op::kTie:
      case Op::kNorm:
        WaitForCollectives(worker, instruction, 0);
        Arrive(worker, instruction);
        joined_[worker] = false;
        return;
      case Op::kValidate:
        return WaitForCollectives(worker, instruction, costs.norm_s);
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
    if (stages_[worker][instruction.chunk].value() == 0 && i < std::ssize(retired_s_)) {
      retired_s_[i] = clocks_[worker];
    }
  }

  Peer StageReplica(int worker, const Instruction& instruction) const {
    return {stages_[worker][instruction.chunk], workers_[worker].replica};
  }

  LinkCosts CostsOfLink(const Peer& a, const Peer& b) const {
    if (options_.links.empty()) return {};
    const int low = std::min(a.stage, b.stage).value(), high = std::max(a.stage, b.stage).value();
    for (size_t e = 0; e < edges_.size(); ++e) {
      if (edges_[e].from == low && edges_[e].to == high) return options_.links[e];
    }
    return {};
  }

  void Send(int worker, const Instruction& instruction) {
    const Peer self = StageReplica(worker, instruction);
    const int target = WorkerIndex(shape_, instruction.peer);
    ChannelTimes& channel = channels_[index_.Of(self, instruction.peer)];
    double& clock = clocks_[worker];
    // The slot that this message takes was given back when its last user was received.
    const size_t slots =
        options_.channel_slots == 0
            ? 0
            : ChannelSlots(options_.channel_slots, self.stage, instruction.peer.stage);
    if (slots > 0 && channel.arrivals.size() + channel.receptions.size() >= slots) {
      clock = std::max(clock, channel.receptions.front());
      channel.receptions.pop_front();
    }
    const LinkCosts link = CostsOfLink(self, instruction.peer);
    const bool activation = UsesActivationBytes(instruction.op);
    const double pack_s = activation ? link.activation_pack_s : link.gradient_pack_s;
    clock += pack_s;
    result_.workers[worker].busy_s += pack_s;
    if (target == worker) return channel.arrivals.push_back(clock);
    const size_t way = worker * workers_.size() + target;
    const PathCosts path = options_.paths.empty()
                               ? PathCosts{link.latency_s, link.bandwidth_bytes_per_s, -1, -1}
                               : options_.paths[way];
    const double bytes = activation ? link.activation_bytes : link.gradient_bytes;
    double start = std::max(clock, link_free_s_[way]);
    if (path.out_port >= 0) start = std::max(start, out_free_s_[path.out_port]);
    if (path.in_port >= 0) start = std::max(start, in_free_s_[path.in_port]);
    const double end =
        start + (path.bandwidth_bytes_per_s > 0 ? bytes / path.bandwidth_bytes_per_s : 0.0);
    link_free_s_[way] = end;
    if (path.out_port >= 0)
      out_free_s_[path.out_port] = start + bytes / options_.ports[path.out_port];
    if (path.in_port >= 0) in_free_s_[path.in_port] = start + bytes / options_.ports[path.in_port];
    channel.arrivals.push_back(end + path.latency_s);
    Record(worker, instruction, start, channel.arrivals.back());
  }

  void Receive(int worker, const Instruction& instruction) {
    ChannelTimes& channel =
        channels_[index_.Of(instruction.peer, StageReplica(worker, instruction))];
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
      for (size_t k = 0; k < use.stages.size(); ++k) {
        use.stages[k].peak_in_flight = residency_[w][k].peak_in_flight();
        use.stages[k].peak_versions = residency_[w][k].peak_versions();
      }
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
  WeightPolicy policy_;
  const SimulateOptions& options_;
  std::vector<Peer> workers_;
  std::vector<std::vector<StageId>> stages_;  // of each worker, by chunk
  std::vector<ScheduleEdge> edges_;
  ChannelIndex index_;
  std::vector<InstructionStream> streams_;
  LinkRules rules_;
  std::vector<ChannelTimes> channels_;
  std::vector<double> link_free_s_;  // by worker from and to: when it can take the next message
  std::vector<std::vector<double>> last_arrival_s_;  // by group of LinkRules and number
  std::vector<double> out_free_s_, in_free_s_;  // by port
  std::vector<bool> joined_;
  std::vector<double> clocks_;
  std::vector<std::vector<Residency>> residency_;  // by chunk
  std::vector<double> retired_s_;                  // when stage 0 has done with a microbatch
  Simulation result_;
};

absl::Status CheckCosts(const ScheduleShape& shape, size_t workers,
                        const SimulateOptions& options) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (workers != WorkersOf(shape).size()) {
    return InvalidArgument("{} programs for {} workers", workers, WorkersOf(shape).size());
  }
  const size_t stages =
      options.replicas.empty() ? options.stages.size() : options.replicas.size();
  if (stages != shape.replicas.size()) {
    return InvalidArgument("costs of {} stages given, the schedule has {}", stages,
                           shape.stages());
  }
  for (size_t s = 0; s < options.replicas.size(); ++s) {
    if (options.replicas[s].size() != static_cast<size_t>(shape.replicas[s])) {
      return InvalidArgument("costs of {} replicas of stage {} given, the schedule has {}",
                             options.replicas[s].size(), s, shape.replicas[s]);
    }
  }
  if (!options.paths.empty() && options.paths.size() != workers * workers) {
    return InvalidArgument("{} paths given, {} workers have {}", options.paths.size(), workers,
                           workers * workers);
  }
  const int ports = static_cast<int>(options.ports.size());
  for (const PathCosts& path : options.paths) {
    if (path.out_port >= ports || path.in_port >= ports)
      return InvalidArgument("a path names port {} of {}", std::max(path.out_port, path.in_port),
                             ports);
  }
  for (const double port : options.ports)
    if (!(port > 0)) return InvalidArgument("a port has bandwidth {}, must be positive", port);
  if (!options.links.empty() && options.links.size() != EdgesOf(shape).size()) {
    return InvalidArgument("costs of {} links given, the schedule has {} edges between stages",
                           options.links.size(), EdgesOf(shape).size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const ScheduleTable& table, const SimulateOptions& options) {
  PD_RETURN_IF_ERROR(CheckCosts(table.shape, table.programs.size(), options));
  return Player(table.shape, table.policy, StreamsOf(table), options).Run();
}

absl::StatusOr<Simulation> Simulate(const std::vector<StageProgram>& programs,
                                    const SimulateOptions& options) {
  if (programs.empty()) return InvalidArgument("no programs to simulate");
  PD_RETURN_IF_ERROR(CheckCosts(programs[0].shape, programs.size(), options));
  return Player(programs[0].shape, programs[0].policy, StreamsOf(programs), options).Run();
}

}  // namespace pipedream
