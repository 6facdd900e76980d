#include "worker/engine/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/schedule/schedules.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/stage_state.h"
#include "worker/transport/connector.h"

namespace pipedream {
namespace {

struct SimulatedStage {
  std::unique_ptr<StageState> state;
  StageChannels channels;
  StageMonitor monitor;
  std::unique_ptr<StageExecutor> executor;
  bool done = false;
};

using Stages = std::vector<std::unique_ptr<SimulatedStage>>;

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options), backend_(MakeOneDnnBackend()), device_(MakeCpuDevice(1, 0)) {}

  absl::StatusOr<SimulationResult> Run() {
    backend_->SetThreads(1);
    PD_RETURN_IF_ERROR(Build());
    Connect();
    PD_RETURN_IF_ERROR(StepAll());
    return Collect();
  }

 private:
  absl::Status Build() {
    const bool clips = options_.spec.optimizer.clip_norm > 0;
    shape_ = MakeScheduleShape(options_.run, options_.replicas, options_.warmup, clips);
    std::vector<StageProgram> programs = options_.programs;
    if (programs.empty()) {
      PD_ASSIGN_OR_RETURN(programs, MakePrograms(options_.spec.schedule, shape_));
    }
    for (StageProgram& program : programs) {
      StageInputs inputs{options_.model,      options_.spec,      options_.run,
                         options_.stage_of,   std::move(program), options_.train,
                         options_.evaluation, options_.recompute, false};
      auto stage = std::make_unique<SimulatedStage>();
      PD_ASSIGN_OR_RETURN(stage->state, BuildStage(inputs, *backend_, device_.get()));
      stages_.push_back(std::move(stage));
    }
    return absl::OkStatus();
  }

  SimulatedStage& At(Peer peer) {
    int index = peer.replica.value();
    for (int s = 0; s < peer.stage.value(); ++s) index += shape_.replicas[s];
    return *stages_[index];
  }

  void Connect() {
    for (auto& stage : stages_) {
      const StageProgram& program = stage->state->program;
      const Peer self{program.stage, program.replica};
      const size_t slots = static_cast<size_t>(program.channel_slots);
      StagePeers peers = PeersOf(program);
      for (Peer peer : peers.activation_to) {
        LocalChannel channel =
            MakeLocalChannel(slots, stage->state->activation_out_bytes.of(peer.stage));
        stage->channels.activation_out[peer] = std::move(channel.send);
        At(peer).channels.activation_in[self] = std::move(channel.receive);
      }
      for (Peer peer : peers.gradient_to) {
        LocalChannel channel =
            MakeLocalChannel(slots, stage->state->gradient_out_bytes.of(peer.stage));
        stage->channels.gradient_out[peer] = std::move(channel.send);
        At(peer).channels.gradient_in[self] = std::move(channel.receive);
      }
    }
    size_t begin = 0;
    for (int r : shape_.replicas) {
      if (r > 1) MakeRing(begin, r, &StageChannels::replicas);
      begin += r;
    }
    if (shape_.global_norm && stages_.size() > 1)
      MakeRing(0, static_cast<int>(stages_.size()), &StageChannels::workers);
    for (auto& stage : stages_)
      stage->executor = std::make_unique<StageExecutor>(stage->state.get(), &stage->channels,
                                                        &stage->monitor, SystemClock());
  }

  void MakeRing(size_t begin, int size, std::unique_ptr<Collective> StageChannels::*member) {
    std::vector<LocalChannel> links;
    for (int i = 0; i < size; ++i) links.push_back(MakeLocalChannel(2, kRingMessageBytes));
    for (int i = 0; i < size; ++i)
      stages_[begin + i]->channels.*member = MakeRingCollective(
          i, size, std::move(links[i].send), std::move(links[(i + size - 1) % size].receive));
  }

  absl::Status StepAll() {
    uint64_t counter = 0;
    int blocked = 0;  // steps without progress since the last progress
    size_t running = stages_.size();
    while (running > 0) {
      SimulatedStage& stage =
          *stages_[Philox(options_.interleaving, 0, counter++)[0] % stages_.size()];
      if (stage.done) continue;
      PD_ASSIGN_OR_RETURN(StageExecutor::Outcome outcome, stage.executor->Step());
      if (outcome == StageExecutor::Outcome::kDone) {
        stage.done = true;
        --running;
      }
      blocked = outcome == StageExecutor::Outcome::kBlocked ? blocked + 1 : 0;
      // A ring moves on inside blocked steps, hence the generous bound.
      if (blocked > 10000 * static_cast<int>(stages_.size())) return Deadlock();
    }
    return absl::OkStatus();
  }

  absl::Status Deadlock() const {
    std::string waits;
    for (const auto& stage : stages_) {
      if (stage->done) continue;
      waits += fmt::format(" stage {} replica {} waits in {};", stage->state->program.stage,
                           stage->state->program.replica, Format(stage->monitor.current()));
    }
    return Internal("deadlock:{}", waits);
  }

  absl::StatusOr<SimulationResult> Collect() {
    SimulationResult result;
    std::map<int64_t, LossSum> losses;
    std::map<int64_t, EvaluationSum> evaluations;
    for (auto& stage : stages_) {
      for (const LossSum& part : stage->monitor.TakeLosses()) {
        LossSum& sum = losses[part.first_minibatch];
        sum.loss_sum += part.loss_sum;
        sum.samples += part.samples;
      }
      for (const EvaluationSum& part : stage->monitor.TakeEvaluations()) {
        auto [it, fresh] = evaluations.emplace(part.epoch, part);
        if (fresh) continue;
        it->second.loss_sum += part.loss_sum;
        it->second.correct += part.correct;
        it->second.positions += part.positions;
        it->second.samples += part.samples;
      }
      result.memory_bytes += stage->state->memory_bytes;
      if (stage->state->program.replica.value() != 0) continue;
      PD_ASSIGN_OR_RETURN(auto weights, stage->state->Export(*backend_));
      result.weights.merge(weights);
    }
    for (const auto& [minibatch, sum] : losses)
      result.losses.push_back(sum.loss_sum / static_cast<double>(sum.samples));
    for (const auto& [epoch, sum] : evaluations) result.evaluations.push_back(sum);
    return result;
  }

  static constexpr size_t kRingMessageBytes = size_t{1} << 18;

  const SimulationOptions& options_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<Device> device_;
  ScheduleShape shape_;
  Stages stages_;
};

}  // namespace

absl::StatusOr<SimulationResult> Simulate(const SimulationOptions& options) {
  return Simulation(options).Run();
}

}  // namespace pipedream
