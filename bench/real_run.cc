#include "bench/real_run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <thread>
#include <utility>

#include "bench/paced_backend.h"
#include "common/base/status.h"
#include "common/job/stage_flow.h"
#include "common/schedule/schedules.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/worker_state.h"
#include "worker/service/address_codec.h"
#include "worker/service/open_channels.h"

namespace pipedream {
namespace {

// Members in the order in which they may be built; destroyed in the other.
struct RunningWorker {
  std::unique_ptr<KernelBackend> backend;
  std::unique_ptr<Connector> connector;
  std::unique_ptr<WorkerState> state;
  WorkerChannels channels;
  StageMonitor monitor;
  std::unique_ptr<SpanRecorder> recorder;
  absl::Status status;
};

class Run {
 public:
  Run(const ChainJob& job, const RealRunOptions& options)
      : job_(job), options_(options), device_(MakeCpuDevice(1, 0)) {}

  absl::StatusOr<RealRun> Go() {
    PD_RETURN_IF_ERROR(Plan());
    for (const StageProgram& program : result_.programs) PD_RETURN_IF_ERROR(Build(program));
    std::barrier start(static_cast<std::ptrdiff_t>(workers_.size()));
    std::vector<std::thread> threads;
    for (auto& worker : workers_)
      threads.emplace_back([&] { worker->status = RunWorker(*worker, start); });
    for (std::thread& thread : threads) thread.join();
    for (auto& worker : workers_) PD_RETURN_IF_ERROR(worker->status);
    Collect();
    return std::move(result_);
  }

 private:
  absl::Status Plan() {
    PD_ASSIGN_OR_RETURN(const ScheduleInfo* schedule, FindSchedule(options_.schedule));
    // Schedules that update after every microbatch know no greater unit.
    const bool by_round = StepsByRound(schedule->policy);
    spec_ = job_.Spec();
    spec_.schedule = options_.schedule;
    spec_.transport = options_.transport;
    spec_.microbatches = by_round ? 1 : options_.microbatches;
    spec_.batch_size = int64_t{options_.microbatch_size} * spec_.microbatches;
    run_ = MakeRunShape(
        spec_, int64_t{options_.microbatch_size} * options_.microbatches * options_.minibatches, 0);
    const int chunks = std::clamp(2, schedule->min_chunks, schedule->max_chunks);
    std::vector<int> replicas(options_.devices * chunks, 1);
    if (schedule->name == "data_parallel") replicas = {options_.devices};
    PD_ASSIGN_OR_RETURN(stage_of_, job_.EvenStages(static_cast<int>(replicas.size())));
    ScheduleShape shape = MakeScheduleShape(run_, replicas, {}, NeedsGlobalNorm(spec_));
    if (chunks > 1) shape.device_of = schedule->place(options_.devices, chunks);
    PD_RETURN_IF_ERROR(SetStageFlow(*job_.model(), spec_, stage_of_, &shape));
    PD_ASSIGN_OR_RETURN(result_.programs, MakePrograms(options_.schedule, shape));
    return absl::OkStatus();
  }

  absl::Status Build(const StageProgram& program) {
    auto worker = std::make_unique<RunningWorker>();
    worker->backend = MakeOneDnnBackend();
    if (options_.pace > Duration::zero())
      worker->backend = MakePacedBackend(std::move(worker->backend), options_.pace);
    worker->backend->SetThreads(1);
    PD_ASSIGN_OR_RETURN(worker->connector, Connector::Create({}));
    PD_ASSIGN_OR_RETURN(worker->state, BuildWorker({job_.model(), spec_, run_, stage_of_, program,
                                                    0, job_.data(), nullptr},
                                                   *worker->backend, device_.get()));
    worker->recorder = std::make_unique<SpanRecorder>(program.instruction_count());
    v1::StageMember& member = *request_.add_members();
    member.set_stage(program.stage.value());
    member.set_replica(program.replica.value());
    *member.mutable_address() = ToProto(worker->connector->address());
    workers_.push_back(std::move(worker));
    return absl::OkStatus();
  }

  absl::Status RunWorker(RunningWorker& worker, std::barrier<>& start) const {
    // The kernel may else wake a sleeping thread 50 us late, so that it wakes several at once.
    prctl(PR_SET_TIMERSLACK, 1UL);
    worker.backend->SetThreads(1);
    absl::Status opened = OpenChannels(
        request_, *worker.state, worker.connector.get(), [] { return absl::OkStatus(); },
        &worker.channels);
    start.arrive_and_wait();
    PD_RETURN_IF_ERROR(opened);
    StageExecutor executor(&worker.state->program, worker.state->pointers(), &worker.channels,
                           &worker.monitor, SystemClock(), worker.recorder.get());
    absl::Status status = executor.Run();
    if (!status.ok()) worker.channels.Abort(status);
    return status;
  }

  void Collect() {
    Duration origin = Duration::max();
    for (auto& worker : workers_) {
      result_.workers.push_back(worker->recorder->Recorded());
      origin = std::min(origin, result_.workers.back().front().begun);
    }
    const std::vector<Peer> names = WorkersOf(result_.programs[0].shape);
    for (size_t w = 0; w < workers_.size(); ++w) {
      const std::vector<Span> spans = SpansOf(names[w], result_.workers[w], origin);
      result_.spans.insert(result_.spans.end(), spans.begin(), spans.end());
    }
  }

  const ChainJob& job_;
  const RealRunOptions& options_;
  const std::unique_ptr<Device> device_;
  JobSpec spec_;
  RunShape run_;
  std::vector<int> stage_of_;
  v1::PrepareStageRequest request_;
  RealRun result_;
  std::vector<std::unique_ptr<RunningWorker>> workers_;
};

}  // namespace

absl::StatusOr<RealRun> RunForReal(const ChainJob& job, const RealRunOptions& options) {
  return Run(job, options).Go();
}

}  // namespace pipedream
