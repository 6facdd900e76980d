#include "worker/engine/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/job/job_schedule.h"
#include "common/job/stage_flow.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/worker_state.h"
#include "worker/transport/connector.h"

namespace pipedream {
namespace {

struct SimulatedWorker {
  std::unique_ptr<WorkerState> state;
  WorkerChannels channels;
  StageMonitor monitor;
  std::unique_ptr<LedgerRecorder> recorder;  // null: no ledger is wanted
  std::unique_ptr<StageExecutor> executor;
  bool done = false;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options), backend_(MakeOneDnnBackend()), own_device_(MakeCpuDevice(1, 0)) {}

  absl::StatusOr<SimulationResult> Run() {
    backend_->SetThreads(1);
    PD_RETURN_IF_ERROR(Build());
    Connect();
    PD_RETURN_IF_ERROR(StepAll());
    return Collect();
  }

 private:
  absl::Status Build() {
    PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, SimulatedPrograms(options_));
    shape_ = programs[0].shape;
    for (StageProgram& program : programs) {
      auto worker = std::make_unique<SimulatedWorker>();
      PD_ASSIGN_OR_RETURN(
          worker->state,
          BuildWorker(
              {options_.model, options_.spec, options_.run, options_.stage_of, std::move(program),
               0, options_.train, options_.evaluation, options_.recompute},
              *backend_, options_.device ? options_.device : own_device_.get()));
      worker->channels.stages.resize(worker->state->stages.size());
      if (options_.spec.ledger) {
        PD_ASSIGN_OR_RETURN(worker->recorder,
                            LedgerRecorder::Create(worker->state->pointers(), backend_.get()));
      }
      workers_.push_back(std::move(worker));
    }
    return absl::OkStatus();
  }

  StageChannels& ChannelsOf(const Peer& at) {
    return workers_[WorkerIndex(shape_, at)]->channels.stages[ChunkOf(shape_, at.stage)];
  }

  void Connect() {
    for (auto& worker : workers_) {
      for (size_t chunk = 0; chunk < worker->state->stages.size(); ++chunk) {
        const StageState& stage = *worker->state->stages[chunk];
        const Peer self{stage.stage, stage.replica};
        StageChannels& own = worker->channels.stages[chunk];
        auto channel_to = [&](const Peer& peer, const MessageSizes& sizes) {
          const int slots =
              ChannelSlots(worker->state->program.channel_slots, self.stage, peer.stage);
          return MakeLocalChannel(static_cast<size_t>(slots), sizes.of(peer.stage));
        };
        const StagePeers peers = PeersOf(worker->state->program, static_cast<int>(chunk));
        for (Peer peer : peers.activation_to) {
          LocalChannel channel = channel_to(peer, stage.activation_out_bytes);
          own.activation_out[peer] = std::move(channel.send);
          ChannelsOf(peer).activation_in[self] = std::move(channel.receive);
        }
        for (Peer peer : peers.gradient_to) {
          LocalChannel channel = channel_to(peer, stage.gradient_out_bytes);
          own.gradient_out[peer] = std::move(channel.send);
          ChannelsOf(peer).gradient_in[self] = std::move(channel.receive);
        }
      }
    }
    for (const Peer& worker : WorkersOf(shape_)) {
      if (worker.replica.value() == 0)
        MakeRing(ReplicaGroup(shape_, worker.stage), &WorkerChannels::replicas);
    }
    MakeRing(TieGroup(shape_), &WorkerChannels::ties);
    MakeRing(NormGroup(shape_), &WorkerChannels::workers);
    for (size_t w = 0; w < workers_.size(); ++w) {
      SimulatedWorker& worker = *workers_[w];
      worker.executor = std::make_unique<StageExecutor>(
          &worker.state->program, worker.state->pointers(), &worker.channels, &worker.monitor,
          SystemClock(), options_.recorders.empty() ? nullptr : options_.recorders[w],
          worker.recorder.get());
    }
  }

  void MakeRing(const std::vector<Peer>& group,
                std::unique_ptr<Collective> WorkerChannels::*member) {
    const int size = static_cast<int>(group.size());
    if (size < 2) return;
    std::vector<LocalChannel> links;
    for (int i = 0; i < size; ++i) links.push_back(MakeLocalChannel(2, kRingMessageBytes));
    for (int i = 0; i < size; ++i)
      workers_[WorkerIndex(shape_, group[i])]->channels.*member = MakeRingCollective(
          i, size, std::move(links[i].send), std::move(links[(i + size - 1) % size].receive));
  }

  absl::Status StepAll() {
    uint64_t counter = 0;
    int blocked = 0;  // steps without progress since the last progress
    size_t running = workers_.size();
    while (running > 0) {
      stopped_ = options_.stop && options_.stop(Minibatches());
      if (stopped_) break;
      SimulatedWorker& worker =
          *workers_[Philox(options_.interleaving, 0, counter++)[0] % workers_.size()];
      if (worker.done) continue;
      PD_ASSIGN_OR_RETURN(StageExecutor::Outcome outcome, worker.executor->Step());
      if (counter % 1024 == 0) TakeLosses();
      if (outcome == StageExecutor::Outcome::kDone) {
        worker.done = true;
        --running;
      }
      blocked = outcome == StageExecutor::Outcome::kBlocked ? blocked + 1 : 0;
      // A ring moves on inside blocked steps, hence the generous bound.
      if (blocked > 10000 * static_cast<int>(workers_.size())) return Deadlock();
    }
    return absl::OkStatus();
  }

  // For which every stage has made all updates.
  int64_t Minibatches() const {
    int64_t least = shape_.minibatches();
    for (const auto& worker : workers_) {
      for (const auto& stage : worker->state->stages) {
        const int64_t span = UpdateSpan(stage->shape, stage->policy, stage->stage);
        least = std::min(
            least, stage->weights->latest().value() * span / shape_.microbatches_per_minibatch);
      }
    }
    return least;
  }

  absl::Status Deadlock() const {
    std::string waits;
    for (const auto& worker : workers_) {
      if (worker->done) continue;
      waits += fmt::format(" stage {} replica {} waits in {};", worker->state->program.stage,
                           worker->state->program.replica, Format(worker->monitor.current()));
    }
    return Internal("deadlock:{}", waits);
  }

  // Now and then: a monitor merges points when it has many.
  void TakeLosses() {
    for (auto& worker : workers_) {
      for (const LossSum& part : worker->monitor.TakeLosses()) {
        LossSum& sum = losses_[part.first_minibatch];
        sum.first_minibatch = part.first_minibatch;
        sum.last_minibatch = part.last_minibatch;
        sum.loss_sum += part.loss_sum;
        sum.samples += part.samples;
      }
    }
  }

  absl::StatusOr<SimulationResult> Collect() {
    TakeLosses();
    SimulationResult result;
    result.minibatches = Minibatches();
    std::vector<StageLedger> ledgers;
    std::map<int64_t, EvaluationSum> evaluations;
    for (auto& worker : workers_) {
      for (const EvaluationSum& part : worker->monitor.TakeEvaluations()) {
        auto [it, fresh] = evaluations.emplace(part.epoch, part);
        if (fresh) continue;
        it->second.loss_sum += part.loss_sum;
        it->second.correct += part.correct;
        it->second.positions += part.positions;
        it->second.samples += part.samples;
      }
      if (worker->recorder != nullptr)
        for (StageLedger& ledger : worker->recorder->ledgers())
          ledgers.push_back(std::move(ledger));
      const StageCounters counters = worker->monitor.counters();
      result.skipped_updates += counters.skipped_updates;
      result.undone_updates += counters.undone_updates;
      result.counters.push_back(counters);
      for (const auto& stage : worker->state->stages) {
        result.memory_bytes += stage->memory_bytes;
        if (!stopped_) PD_RETURN_IF_ERROR(AddWeights(*stage, &result.weights));
      }
    }
    for (const auto& [minibatch, sum] : losses_) {
      result.losses.push_back(sum.loss_sum / static_cast<double>(sum.samples));
      result.loss_sums.push_back(sum);
    }
    PD_ASSIGN_OR_RETURN(result.ledger, MergeLedgers(std::move(ledgers)));
    for (const auto& [epoch, sum] : evaluations) result.evaluations.push_back(sum);
    return result;
  }

  absl::Status AddWeights(const StageState& stage, std::map<std::string, Tensor>* weights) const {
    PD_ASSIGN_OR_RETURN(auto own, stage.Export(*backend_));
    weights->merge(own);
    for (const auto& [name, copy] : own) {       // what another stage or replica has, too
      if (!std::ranges::equal(copy.bytes(), weights->at(name).bytes()))
        return Internal("'{}' of stage {} replica {} differs from the copy of another worker", name,
                        stage.stage, stage.replica);
    }
    return absl::OkStatus();
  }

  static constexpr size_t kRingMessageBytes = size_t{1} << 18;

  const SimulationOptions& options_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<Device> own_device_;
  ScheduleShape shape_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::map<int64_t, LossSum> losses_;  // by minibatch
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<ScheduleShape> ShapeOf(const SimulationOptions& options) {
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOfRun(options.spec, options.run, options.replicas,
                                                      options.warmup, options.device_of));
  PD_RETURN_IF_ERROR(SetStageFlow(*options.model, options.spec, options.stage_of, &shape));
  return shape;
}

absl::StatusOr<std::vector<StageProgram>> SimulatedPrograms(const SimulationOptions& options) {
  if (!options.programs.empty()) return options.programs;
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOf(options));
  return MakePrograms(options.spec, shape);
}

absl::StatusOr<SimulationResult> Simulate(const SimulationOptions& options) {
  return Simulation(options).Run();
}

}  // namespace pipedream
