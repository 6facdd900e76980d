#include "common/job/run_shape.h"

#include <numeric>
#include <random>
#include <set>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

RunShape MakeRun(int64_t train, int64_t batch, int microbatches = 1, int64_t epochs = 2,
                 int64_t evaluation = 0) {
  RunShape run;
  run.train_samples = train;
  run.evaluation_samples = evaluation;
  run.batch_size = batch;
  run.microbatches = microbatches;
  run.epochs = epochs;
  run.seed = 7;
  return run;
}

std::vector<int64_t> TrainingCounts(const RunShape& run, int64_t microbatches) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < microbatches; ++i) {
    counts.push_back(TrainingSamples(run, MicrobatchId(i)).count);
  }
  return counts;
}

TEST(RunShape, ErrorsNameTheField) {
  auto expect = [](const RunShape& run, std::string_view message) {
    EXPECT_THAT(Validate(run), StatusIs(absl::StatusCode::kInvalidArgument,
                                        testing::HasSubstr(std::string(message))));
  };
  EXPECT_OK(Validate(MakeRun(10, 10, 10)));
  expect(MakeRun(0, 1), "train_samples: 0");
  expect(MakeRun(10, 0), "batch_size: 0");
  expect(MakeRun(10, 4, 0), "microbatches: 0");
  expect(MakeRun(10, 4, 1, 0), "epochs: 0");
  expect(MakeRun(10, 4, 1, 1, -1), "evaluation_samples: -1");
  expect(MakeRun(10, 11), "batch_size: 11, but there are only 10 training samples");
  expect(MakeRun(10, 4, 5), "microbatches: 5 per minibatch, but batch_size is 4");
}

// 25 samples in minibatches of 10, 10, 5; each in microbatches of up to ceil(10 / 4) = 3.
TEST(RunShape, LastMicrobatchesAreSmallerOrEmpty) {
  RunShape run = MakeRun(25, 10, 4);
  EXPECT_EQ(run.minibatches_per_epoch(), 3);
  EXPECT_EQ(TrainingCounts(run, 13), (std::vector<int64_t>{3, 3, 3, 1, 3, 3, 3, 1, 3, 2, 0, 0, 3}));
  MicrobatchSamples samples = TrainingSamples(run, MicrobatchId(7));
  EXPECT_EQ(samples.epoch, 0);
  EXPECT_EQ(samples.minibatch, 1);
  EXPECT_EQ(samples.begin, 19);
  samples = TrainingSamples(run, MicrobatchId(12 + 9));
  EXPECT_EQ(samples.epoch, 1);
  EXPECT_EQ(samples.minibatch, 5);
  EXPECT_EQ(samples.begin, 23);
  EXPECT_EQ(samples.count, 2);
  EXPECT_EQ(TrainingSamples(run, MicrobatchId(24)).count, 0);  // beyond the run
  EXPECT_EQ(MicrobatchSizes(run), (std::vector<int64_t>{3, 2, 1}));
}

TEST(RunShape, EveryEpochCoversEverySampleOnce) {
  std::mt19937 random(1);
  for (int k = 0; k < 200; ++k) {
    int64_t train = 1 + random() % 60, batch = 1 + random() % train;
    RunShape run = MakeRun(train, batch, 1 + random() % batch, 3, random() % 30);
    ASSERT_OK(Validate(run));
    int64_t per_epoch = run.minibatches_per_epoch() * run.microbatches;
    std::set<int64_t> sizes;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      int64_t next = 0;
      for (int64_t i = epoch * per_epoch; i < (epoch + 1) * per_epoch; ++i) {
        MicrobatchSamples samples = TrainingSamples(run, MicrobatchId(i));
        EXPECT_EQ(samples.epoch, epoch);
        EXPECT_EQ(samples.begin, next);
        next += samples.count;
        sizes.insert(samples.count);
      }
      EXPECT_EQ(next, train);
      next = 0;
      for (int64_t j = 0; j < run.evaluation_microbatches(); ++j) {
        MicrobatchSamples samples =
            EvaluationSamples(run, MicrobatchId(epoch * run.evaluation_microbatches() + j));
        EXPECT_EQ(samples.epoch, epoch);
        EXPECT_EQ(samples.begin, next);
        EXPECT_GT(samples.count, 0);
        next += samples.count;
        sizes.insert(samples.count);
      }
      EXPECT_EQ(next, run.evaluation_samples);
    }
    sizes.erase(0);
    EXPECT_EQ(MicrobatchSizes(run), std::vector<int64_t>(sizes.rbegin(), sizes.rend()));
  }
}

TEST(RunShape, UpdatesWeighWhatTheyHold) {
  // Flush: the minibatch, 10 + 10 + 5 each epoch.
  RunShape flush = MakeRun(25, 10, 4);
  for (int64_t u = 0; u < 6; ++u) {
    EXPECT_EQ(UpdateSamples(flush, flush.microbatches, u), u % 3 == 2 ? 5 : 10);
  }
  // Stash with two replicas: rounds of two minibatches of 10, 10, 5, 10, 10, 5.
  RunShape stash = MakeRun(25, 10);
  std::vector<int64_t> rounds;
  for (int64_t u = 0; u < 4; ++u) {
    rounds.push_back(UpdateSamples(stash, 2, u));
  }
  EXPECT_EQ(rounds, (std::vector<int64_t>{20, 15, 15, 0}));
  EXPECT_EQ(UpdateSamples(stash, 4, 1), 15);  // the partial last round
}

TEST(RunShape, ShufflingIsAPermutationPerEpoch) {
  RunShape run = MakeRun(53, 10);
  auto order = [&](int64_t epoch) {
    std::vector<int64_t> rows;
    for (int64_t k = 0; k < 53; ++k) rows.push_back(TrainingRow(run, epoch, k));
    return rows;
  };
  std::vector<int64_t> identity(53);
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<int64_t> first = order(0), second = order(1);
  EXPECT_EQ(first, order(0));
  EXPECT_NE(first, second);
  EXPECT_NE(first, identity);
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(identity));
  EXPECT_THAT(second, testing::UnorderedElementsAreArray(identity));
  run.shuffle = false;
  EXPECT_EQ(order(1), identity);
}

TEST(RunShape, GivesTheScheduleItsShape) {
  ScheduleShape shape = MakeScheduleShape(MakeRun(25, 10, 4, 2, 7), {2, 1}, {3, 0}, true);
  EXPECT_EQ(shape.replicas, (std::vector{2, 1}));
  EXPECT_EQ(shape.minibatches_per_epoch, 3);
  EXPECT_EQ(shape.epochs, 2);
  EXPECT_EQ(shape.microbatches_per_minibatch, 4);
  EXPECT_EQ(shape.evaluation_microbatches, 3);
  EXPECT_EQ(shape.warmup, (std::vector{3, 0}));
  EXPECT_TRUE(shape.global_norm);
  EXPECT_EQ(shape.microbatches(), 24);
}

}  // namespace
}  // namespace pipedream
