#include "common/job/job_spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

JobSpec Good() {
  JobSpec spec;
  spec.model.path = "m.onnx";
  spec.train_columns.resize(2);
  spec.train_columns[0].name = "x";
  spec.train_columns[0].path = "x.npy";
  spec.train_columns[1].name = "y";
  spec.train_columns[1].path = "y.npy";
  spec.loss.resize(1);
  return spec;
}

TEST(JobSpecTest, AcceptsAGoodJob) {
  EXPECT_OK(Validate(Good()));
  JobSpec folder = Good();
  folder.train_columns.clear();
  folder.data_folder = "data";
  EXPECT_OK(Validate(folder));
  JobSpec cosine = Good();
  cosine.learning_rate.kind = LrScheduleKind::kCosine;  // ends with the run
  cosine.learning_rate.warmup = 5;
  EXPECT_OK(Validate(cosine));
}

TEST(JobSpecTest, NamesTheFieldThatIsWrong) {
  struct Case {
    std::function<void(JobSpec*)> spoil;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](JobSpec* s) { s->model.path = ""; }, "model: missing"},
      {[](JobSpec* s) { s->train_columns.clear(); }, "data: missing"},
      {[](JobSpec* s) { s->data_folder = "d"; }, "data: names both"},
      {[](JobSpec* s) { s->train_columns[1].path = ""; }, "data.train.y.file"},
      {[](JobSpec* s) { s->train_columns[1].name = "x"; }, "data.train.x: given twice"},
      {[](JobSpec* s) { s->train_columns[0].scale = 0; }, "data.train.x.scale: 0"},
      {[](JobSpec* s) { s->train_columns[0].window = -1; }, "data.train.x.window: -1"},
      {[](JobSpec* s) { s->loss.clear(); }, "loss: missing"},
      {[](JobSpec* s) { s->loss[0].weight = std::numeric_limits<double>::quiet_NaN(); },
       "loss.weight: nan"},
      {[](JobSpec* s) { s->loss[0].kind = LossTerm::Kind::kOutput; }, "loss.output"},
      {[](JobSpec* s) { s->epochs = 0; }, "epochs: 0"},
      {[](JobSpec* s) { s->batch_size = -4; }, "batch_size: -4"},
      {[](JobSpec* s) { s->microbatches = 0; }, "microbatches: 0"},
      {[](JobSpec* s) {
         s->microbatches = 65;
         s->schedule = "1f1b";
       },
       "microbatches: 65 must not exceed batch_size 64"},
      {[](JobSpec* s) { s->microbatches = 2; },
       "microbatches: 2 does not go with schedule 'pipedream'"},
      {[](JobSpec* s) { s->schedule = "pipedrem"; }, "pipedrem"},
      {[](JobSpec* s) { s->stages = -1; }, "stages: -1"},
      {[](JobSpec* s) {
         s->stages = 3;
         s->workers = 2;
       },
       "stages: 3 stages need as many workers"},
      {[](JobSpec* s) { s->warmup = {1}; }, "warmup: 1 numbers given"},
      {[](JobSpec* s) {
         s->stages = 2;
         s->warmup = {1, -1};
       },
       "warmup[1]: -1"},
      {[](JobSpec* s) { s->transport = "udp"; }, "transport: 'udp' is unknown"},
      {[](JobSpec* s) { s->start_timeout_s = -1; }, "start_timeout: -1"},
      {[](JobSpec* s) { s->optimizer.momentum = -1; }, "optimizer"},
      {[](JobSpec* s) { s->learning_rate.base = std::numeric_limits<double>::infinity(); },
       "optimizer"},
  };
  for (const Case& c : cases) {
    JobSpec spec = Good();
    c.spoil(&spec);
    EXPECT_THAT(Validate(spec), StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(JobSpecTest, RunShapeCarriesTheCounts) {
  JobSpec spec = Good();
  spec.batch_size = 10;
  spec.epochs = 3;
  spec.seed = 9;
  spec.shuffle = false;
  RunShape want;
  want.train_samples = 95;
  want.evaluation_samples = 20;
  want.batch_size = 10;
  want.epochs = 3;
  want.seed = 9;
  want.shuffle = false;
  EXPECT_EQ(MakeRunShape(spec, 95, 20), want);
  spec.evaluate = false;
  EXPECT_EQ(MakeRunShape(spec, 95, 20).evaluation_samples, 0);
}

}  // namespace
}  // namespace pipedream
