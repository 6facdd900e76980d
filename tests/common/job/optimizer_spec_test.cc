#include "common/job/optimizer_spec.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LearningRate, ConstantStaysAfterLinearWarmup) {
  const LrSchedule lr{.base = 0.8, .warmup = 4};
  EXPECT_DOUBLE_EQ(LearningRate(lr, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 1), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 3), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 4), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 1000000), 0.8);
}

TEST(LearningRate, StepFallsEveryFewUpdates) {
  const LrSchedule lr{.kind = LrScheduleKind::kStep, .base = 1, .step_every = 3, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(LearningRate(lr, 0), 1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 2), 1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 3), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 8), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 9), 0.125);
}

TEST(LearningRate, CosineFallsFromBaseToZero) {
  const LrSchedule lr{.kind = LrScheduleKind::kCosine, .base = 2, .warmup = 2, .total = 10};
  EXPECT_DOUBLE_EQ(LearningRate(lr, 0), 1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 1), 2);
  EXPECT_DOUBLE_EQ(LearningRate(lr, 2), 2);                     // cos 0
  EXPECT_NEAR(LearningRate(lr, 4), 1.7071067811865475, 1e-12);  // 1 + cos(pi / 4)
  EXPECT_NEAR(LearningRate(lr, 6), 1, 1e-12);                   // cos(pi / 2)
  EXPECT_NEAR(LearningRate(lr, 10), 0, 1e-12);
  EXPECT_EQ(LearningRate(lr, 11), 0);  // does not rise again
}

struct BadOptimizer {
  OptimizerSpec spec;
  std::string field;
  std::string found;
};

TEST(ValidateOptimizer, NamesTheFieldAndItsValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const BadOptimizer cases[] = {
      {{.momentum = 1.5}, "momentum", "1.5"},
      {{.momentum = -0.5}, "momentum", "-0.5"},
      {{.nesterov = true}, "nesterov", "momentum"},
      {{.weight_decay = -1}, "weight_decay", "-1"},
      {{.weight_decay = nan}, "weight_decay", "nan"},
      {{.clip_norm = -2}, "clip_norm", "-2"},
      {{.kind = OptimizerKind::kAdam, .momentum = 0.9}, "momentum", "adam"},
      {{.kind = OptimizerKind::kAdam, .beta1 = 1}, "beta1", "1"},
      {{.kind = OptimizerKind::kAdamW, .beta2 = -0.1}, "beta2", "-0.1"},
      {{.kind = OptimizerKind::kAdamW, .epsilon = 0}, "epsilon", "0"},
  };
  for (const BadOptimizer& c : cases) {
    EXPECT_THAT(Validate(c.spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                           AllOf(HasSubstr(c.field), HasSubstr(c.found))));
  }
}

TEST(ValidateOptimizer, AcceptsTheUsualOnes) {
  EXPECT_OK(Validate(OptimizerSpec{}));
  EXPECT_OK(Validate(
      OptimizerSpec{.momentum = 0.9, .nesterov = true, .weight_decay = 1e-4, .clip_norm = 1}));
  EXPECT_OK(Validate(OptimizerSpec{.kind = OptimizerKind::kAdamW, .weight_decay = 0.01}));
}

TEST(ValidateSchedule, NamesTheFieldAndItsValue) {
  using enum LrScheduleKind;
  const std::pair<LrSchedule, std::string> cases[] = {
      {{.base = -1}, "lr.base is -1"},
      {{.base = std::numeric_limits<double>::infinity()}, "lr.base is inf"},
      {{.warmup = -3}, "lr.warmup is -3"},
      {{.kind = kStep, .step_every = 0}, "lr.step_every is 0"},
      {{.kind = kStep, .step_every = 5, .gamma = 0}, "lr.gamma is 0"},
      {{.kind = kCosine, .warmup = 10, .total = 10}, "lr.total is 10"},
  };
  for (const auto& [schedule, text] : cases) {
    EXPECT_THAT(Validate(schedule), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
  EXPECT_OK(Validate(LrSchedule{}));
  EXPECT_OK(Validate(LrSchedule{.kind = kCosine, .warmup = 5, .total = 100}));
}

TEST(Names, AreWhatUsersWrite) {
  EXPECT_EQ(ToString(OptimizerKind::kAdamW), "adamw");
  EXPECT_EQ(ToString(LrScheduleKind::kCosine), "cosine");
}

}  // namespace
}  // namespace pipedream
