#include "client/render/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/render/table.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::Job RunningJob() {
  v1::Job job;
  job.set_id("j1");
  job.set_state(v1::JOB_STATE_RUNNING);
  v1::JobProgress& p = *job.mutable_progress();
  p.set_minibatch(1200);
  p.set_minibatches(2000);
  p.set_epoch(2);  // completed
  p.set_epochs(8);
  p.set_loss(0.34564);
  p.set_samples_per_s(1234.4);
  p.set_eta_s(75);
  return job;
}

TEST(Progress, BarFillsTheWidthThatThereIs) {
  EXPECT_EQ(FormatProgressBar(RunningJob(), 100),
            "epoch 3/8 [==============>         ] 1200/2000 loss 0.3456 1234 samples/s ETA 1m15s");
}

TEST(Progress, BarShrinksThenGoesThenTrailingPartsGo) {
  EXPECT_EQ(FormatProgressBar(RunningJob(), 67),
            "epoch 3/8 [====>   ] 1200/2000 loss 0.3456 1234 samples/s ETA 1m15s");
  EXPECT_EQ(FormatProgressBar(RunningJob(), 60),
            "epoch 3/8 1200/2000 loss 0.3456 1234 samples/s ETA 1m15s");
  EXPECT_EQ(FormatProgressBar(RunningJob(), 50), "epoch 3/8 1200/2000 loss 0.3456 1234 samples/s");
  EXPECT_EQ(FormatProgressBar(RunningJob(), 5), "epoch");
}

TEST(Progress, NeverLongerThanTheWidth) {
  for (int width = 1; width < 150; ++width) {
    EXPECT_LE(DisplayWidth(FormatProgressBar(RunningJob(), width)), width);
  }
}

TEST(Progress, TheEndShowsTheLastEpoch) {
  v1::Job job = RunningJob();
  job.mutable_progress()->set_epoch(8);
  job.mutable_progress()->set_minibatch(2000);
  job.mutable_progress()->set_eta_s(0);
  EXPECT_EQ(FormatProgressPlain(job), "epoch 8/8 step 2000/2000 loss 0.3456 1234 samples/s");
}

TEST(Progress, BeforeTheRunTheStateAndItsReason) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_reason("needs 4 workers, 2 are idle");
  EXPECT_EQ(FormatProgressPlain(job), "QUEUED: needs 4 workers, 2 are idle");
  EXPECT_EQ(FormatProgressBar(job, 10), "QUEUED: ne");
}

TEST(Progress, Evaluations) {
  v1::EvaluationResult result;
  result.set_epoch(2);
  result.set_loss_sum(50);
  result.set_correct(175);
  result.set_positions(200);
  result.set_samples(200);
  EXPECT_EQ(FormatEvaluation(result, 8),
            "epoch 3/8: test accuracy 87.50 %, test loss 0.2500 (200 samples)");
  result.set_correct(-1);
  EXPECT_EQ(FormatEvaluation(result, 8), "epoch 3/8: test loss 0.2500 (200 samples)");
}

TEST(Progress, Events) {
  v1::JobEvent event;
  event.set_time_us((12 * 3600 + 34 * 60 + 56) * int64_t{1'000'000});
  event.set_level("warning");
  event.set_source("worker-2");
  event.set_message("slow\nlink");
  EXPECT_EQ(FormatEvent(event), "12:34:56 worker-2 warning: slow link");
  event.set_level("info");
  EXPECT_EQ(FormatEvent(event), "12:34:56 worker-2: slow link");
}

class ProgressPrinterTest : public testing::Test {
 protected:
  std::ostringstream out, err;
  Terminal terminal{&out, &err};
  FakeClock clock;
};

TEST_F(ProgressPrinterTest, PlainLinesComeNowAndThen) {
  ProgressPrinter printer(&terminal, &clock);
  v1::Job job = RunningJob();
  printer.Show(job);
  printer.Show(job);
  EXPECT_EQ(err.str(), FormatProgressPlain(job) + "\n");
  clock.Advance(ProgressPrinter::kPlainInterval);
  printer.Show(job);
  EXPECT_EQ(err.str(), FormatProgressPlain(job) + "\n" + FormatProgressPlain(job) + "\n");
  EXPECT_EQ(out.str(), "");
}

TEST_F(ProgressPrinterTest, PlainTextHoldsNoControlCharacters) {
  ProgressPrinter printer(&terminal, &clock);
  v1::Job job = RunningJob();
  auto* evaluation = job.mutable_progress()->add_evaluations();
  evaluation->set_samples(10);
  printer.Show(job);
  EXPECT_THAT(err.str(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(err.str(), Not(HasSubstr("\r")));
}

TEST_F(ProgressPrinterTest, EveryEvaluationAndStateIsPrintedOnce) {
  ProgressPrinter printer(&terminal, &clock);
  v1::Job job;
  job.set_state(v1::JOB_STATE_PROFILING);
  printer.Show(job);
  printer.Show(job);
  EXPECT_EQ(err.str(), "PROFILING\n");
  job = RunningJob();
  job.mutable_progress()->set_minibatch(0);
  job.mutable_progress()->add_evaluations()->set_samples(10);
  printer.Show(job);
  printer.Show(job);
  EXPECT_EQ(err.str(), "PROFILING\nepoch 1/8: test loss 0.0000 (10 samples)\n");
}

TEST_F(ProgressPrinterTest, OnATerminalTheBarIsRedrawnAndLinesStayAboveIt) {
  terminal.err_is_tty = true;
  terminal.width = 60;
  {
    ProgressPrinter printer(&terminal, &clock);
    printer.Show(RunningJob());
    printer.Line("a line");
  }
  EXPECT_EQ(err.str(), FormatProgressBar(RunningJob(), 59) + "\r\x1b[Ka line\n");
}

TEST_F(ProgressPrinterTest, StatesCanBeLeftToTheEvents) {
  ProgressPrinter printer(&terminal, &clock, false);
  v1::Job job;
  job.set_state(v1::JOB_STATE_PROFILING);
  printer.Show(job);
  EXPECT_EQ(err.str(), "");
}

TEST_F(ProgressPrinterTest, NoneIsSilent) {
  terminal.progress = ProgressMode::kNone;
  ProgressPrinter printer(&terminal, &clock);
  printer.Show(RunningJob());
  EXPECT_EQ(err.str(), "");
}

}  // namespace
}  // namespace pipedream
