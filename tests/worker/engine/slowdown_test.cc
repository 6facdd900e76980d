#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/schedule/schedules.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/stage_executor.h"
#include "worker/engine/worker_state.h"

namespace pipedream {
namespace {

class SlowdownTest : public testing::Test {
 protected:
  // Trains to the end.
  StageCounters Train(double slowdown) {
    JobSpec spec = job_.Spec();
    StageInputs inputs;
    inputs.model = job_.model();
    inputs.spec = spec;
    inputs.run = MakeRunShape(spec, job_.train()->rows(), job_.evaluation()->rows());
    inputs.stage_of = job_.EvenStages(1);
    inputs.train = job_.train();
    inputs.evaluation = job_.evaluation();
    auto programs = MakePrograms("1f1b", MakeScheduleShape(inputs.run, {1}, {}, false));
    EXPECT_OK(programs);
    inputs.program = (*programs)[0];
    auto worker = BuildWorker(inputs, *backend_, device_.get());
    EXPECT_OK(worker);
    WorkerChannels channels;
    channels.stages.resize(1);
    StageMonitor monitor;
    StageExecutor executor(&(*worker)->program, (*worker)->pointers(), &channels, &monitor,
                           SystemClock(), nullptr, nullptr, slowdown);
    EXPECT_OK(executor.Run());
    return monitor.counters();
  }

  SmallJob job_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(1, 0);
  std::unique_ptr<KernelBackend> backend_ = MakeOneDnnBackend();
};

TEST_F(SlowdownTest, MakesWhatComputesTakeLonger) {
  backend_->SetThreads(1);
  const StageCounters full = Train(1), slow = Train(60);
  EXPECT_EQ(slow.updates, full.updates);
  EXPECT_GT(slow.forward_s, 5 * full.forward_s);
  EXPECT_GT(slow.backward_s, 5 * full.backward_s);
  EXPECT_GT(slow.step_s, 5 * full.step_s);
}

}  // namespace
}  // namespace pipedream
