#include "client/render/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipedream {
namespace {

using testing::HasSubstr;

constexpr int64_t kNow = 1'700'000'000'000'000;

v1::Job SomeJob() {
  v1::Job job;
  job.set_id("20231114-221320-abcdef");
  job.mutable_spec()->set_name("lenet");
  job.mutable_spec()->set_schedule("pipedream");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_attempt(1);
  job.set_created_us(kNow - 90'000'000);
  v1::JobProgress& p = *job.mutable_progress();
  p.set_epoch(1);
  p.set_epochs(8);
  p.set_minibatch(10);
  p.set_loss(1.5);
  p.set_samples_per_s(800);
  p.set_eta_s(30);
  auto* evaluation = p.add_evaluations();
  evaluation->set_correct(1);
  evaluation->set_positions(2);
  evaluation->set_samples(2);
  job.mutable_plan()->add_stages()->add_workers("a");
  job.mutable_plan()->mutable_stages(0)->add_workers("b");
  job.mutable_plan()->add_stages()->add_workers("c");
  return job;
}

TEST(JobText, TableOfJobs) {
  v1::Job waiting;
  waiting.set_id("j2");
  waiting.set_state(v1::JOB_STATE_QUEUED);
  waiting.set_reason("needs 4 workers, has 3");
  waiting.set_created_us(kNow - 3 * 3600 * int64_t{1'000'000});
  EXPECT_EQ(FormatJobTable({SomeJob(), waiting}, false, true, kNow),
            "ID                      NAME   STATE    EPOCH    LOSS  ACCURACY    AGE  REASON\n"
            "20231114-221320-abcdef  lenet  RUNNING    2/8  1.5000   50.00 %    90s  -\n"
            "j2                      -      QUEUED       -       -         -  3h00m  needs 4 "
            "workers, has 3\n");
}

TEST(JobText, WideTableAddsPartitionAndRates) {
  EXPECT_EQ(FormatJobTable({SomeJob()}, true, false, kNow),
            "20231114-221320-abcdef  lenet  RUNNING  2/8  1.5000  50.00 %  90s  pipedream  2-1  800"
            "  30.0 s  1  -\n");
}

TEST(JobText, TableOfWorkers) {
  v1::Worker worker;
  worker.set_id("worker-1");
  worker.set_state(v1::Worker::STATE_BUSY);
  worker.set_device_kind("cpu");
  worker.set_memory_bytes(int64_t{2} << 30);
  worker.set_job_id("j1");
  worker.set_stage(1);
  worker.set_replica(0);
  worker.set_last_heartbeat_us(kNow - 1'000'000);
  EXPECT_EQ(FormatWorkerTable({worker}, false, true, kNow),
            "ID        STATE  DEVICE    MEMORY  JOB  STAGE  HEARTBEAT\n"
            "worker-1  BUSY   cpu     2.00 GiB  j1     1.0     1s ago\n");
}

TEST(JobText, FailuresNameThePlace) {
  v1::Failure failure;
  failure.set_reason("WORKER_LOST");
  failure.set_message("no heartbeat for 5 s");
  failure.set_stage(2);
  failure.set_replica(1);
  failure.set_worker_id("worker-3");
  failure.set_operation("F17");
  EXPECT_EQ(FormatFailure(failure),
            "WORKER_LOST: no heartbeat for 5 s (stage 2, replica 1, worker worker-3, operation "
            "F17)");
  failure.Clear();
  failure.set_stage(-1);
  failure.set_message("disk full");
  EXPECT_EQ(FormatFailure(failure), "disk full");
}

TEST(JobText, OutcomeSaysWhatToDoNext) {
  v1::Job job = SomeJob();
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(FormatOutcome(job), HasSubstr("pipedream export 20231114-221320-abcdef --onnx"));
  EXPECT_THAT(FormatOutcome(job), HasSubstr("test accuracy 50.00 %"));
  job.set_state(v1::JOB_STATE_FAILED);
  job.mutable_failure()->set_message("boom");
  job.mutable_failure()->set_stage(-1);
  EXPECT_THAT(FormatOutcome(job), HasSubstr("boom"));
  job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(FormatOutcome(job), "job 20231114-221320-abcdef CANCELLED");
}

TEST(JobText, DescriptionComparesPredictionWithMeasurement) {
  v1::Job job = SomeJob();
  job.mutable_progress()->set_predicted_step_s(0.010);
  job.mutable_progress()->set_measured_step_s(0.0125);
  auto* plan = job.mutable_plan()->mutable_stages(0);
  plan->set_compute_s(0.004);
  plan->mutable_memory()->set_weights(3 << 20);
  plan->mutable_memory()->set_activations(1 << 20);
  auto* stage = job.mutable_progress()->add_stages();
  stage->set_stage(0);
  stage->set_worker_id("a");
  stage->set_microbatches_backward(100);
  stage->set_forward_s(0.2);
  stage->set_backward_s(0.3);
  stage->set_memory_bytes(5 << 20);
  v1::JobEvent event;
  event.set_source("coordinator");
  event.set_level("info");
  event.set_message("started");
  std::string text = DescribeJob(job, {event});
  EXPECT_THAT(text, HasSubstr("Step time:    predicted 10 ms, measured 12.5 ms (+25 %)"));
  EXPECT_THAT(text, HasSubstr("4.00 MiB"));
  EXPECT_THAT(text, HasSubstr("5.00 MiB"));
  EXPECT_THAT(text, HasSubstr("5 ms"));  // 0.5 s over 100 microbatches
  EXPECT_THAT(text, HasSubstr("coordinator: started"));
  EXPECT_THAT(text, HasSubstr("test accuracy 50.00 %"));
}

TEST(JobText, Ages) {
  EXPECT_EQ(FormatAge(0, kNow), "");
  EXPECT_EQ(FormatAge(kNow - 5'000'000, kNow), "5s");
  EXPECT_EQ(FormatAge(kNow - int64_t{179} * 1'000'000, kNow), "2m");
  EXPECT_EQ(FormatAge(kNow - int64_t{7500} * 1'000'000, kNow), "2h05m");
  EXPECT_EQ(FormatAge(kNow - int64_t{3} * 86400 * 1'000'000, kNow), "3d");
  EXPECT_EQ(FormatAge(kNow + 5'000'000, kNow), "0s");  // clocks differ
}

}  // namespace
}  // namespace pipedream
