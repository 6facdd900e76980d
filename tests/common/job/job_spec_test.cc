#include "common/job/job_spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "common/job/job_schedule.h"
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
      {[](JobSpec* s) { s->chunks = 2; },
       "chunks: 2, but schedule 'pipedream' has one stage per device; interleaved and zb_v"},
      {[](JobSpec* s) {
         s->schedule = "zb_v";
         s->chunks = 3;
       },
       "chunks: 3, but schedule 'zb_v' takes 2 to 2 stages per device"},
      {[](JobSpec* s) {
         s->schedule = "zb_v";
         s->stages = 3;
       },
       "stages: 3 on devices with 2 stages each (schedule 'zb_v'); use a multiple of 2"},
      {[](JobSpec* s) {
         s->schedule = "interleaved";
         s->chunks = 2;
         s->stages = 6;
         s->workers = 2;
       },
       "stages: 6 stages need 3 workers, but workers is 2"},
      {[](JobSpec* s) {
         s->schedule = "zb_v";
         s->stages = 2;
         s->warmup = {1, 0};
       },
       "warmup: given, but schedule 'zb_v' has a warm-up of its own"},
      {[](JobSpec* s) {
         s->schedule = "data_parallel";
         s->stages = 2;
       },
       "stages: 2, but schedule 'data_parallel' has one"},
      {[](JobSpec* s) {
         s->schedule = "paci";
         s->recompute.enabled = true;
       },
       "recompute: not with schedule 'paci', which keeps one version of the weights"},
      {[](JobSpec* s) {
         s->recompute = {true, {"conv1", ""}};
       },
       "recompute: a name of a node"},
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

TEST(JobSpecTest, AcceptsEverySchedule) {
  for (const ScheduleInfo& info : AllSchedules()) {
    JobSpec spec = Good();
    spec.schedule = info.name;
    for (spec.chunks = 0; spec.chunks <= 1; ++spec.chunks) {
      SCOPED_TRACE(info.name);
      EXPECT_OK(Validate(spec));
      ASSERT_OK_AND_ASSIGN(JobSchedule schedule, ScheduleOf(spec));
      EXPECT_EQ(schedule.chunks, info.min_chunks);
      EXPECT_EQ(schedule.policy, info.policy);
      EXPECT_EQ(schedule.device_of(3).empty(), info.place == nullptr);
    }
  }
}

constexpr char kReplicatedTable[] =
    "schedule mine policy=flush replicas=2,1,1 devices=0,1,1 microbatches=4\n"
    "s0.r0: F0 F2 B0 B2\n"
    "s0.r1: F1 F3 B1 B3\n"
    "s1.r0: F0 F0c1 B0c1 B0 F1 F1c1 B1c1 B1 F2 F2c1 B2c1 B2 F3 F3c1 B3c1 B3\n";

JobSpec WithTable() {
  JobSpec spec = Good();
  EXPECT_OK(SetScheduleTable(kReplicatedTable, "mine.txt", &spec));
  return spec;
}

TEST(JobSpecTest, ATableSaysTheLayoutAndTheJobMustAgree) {
  const JobSpec good = WithTable();
  EXPECT_OK(Validate(good));
  EXPECT_EQ(good.schedule, "mine");
  EXPECT_EQ(good.microbatches, 4);
  ASSERT_OK_AND_ASSIGN(JobSchedule schedule, ScheduleOf(good));
  EXPECT_EQ(schedule.info, nullptr);
  EXPECT_EQ(schedule.device_of(2), (std::vector<int>{0, 1, 1}));
  struct Case {
    std::function<void(JobSpec*)> spoil;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](JobSpec* s) { s->schedule = "1f1b"; },
       "schedule: '1f1b', but the table given is of 'mine'"},
      {[](JobSpec* s) { s->stages = 2; }, "stages: 2, but the table of schedule 'mine' has 3"},
      {[](JobSpec* s) { s->microbatches = 2; },
       "microbatches: 2, but the table of schedule 'mine' has 4"},
      {[](JobSpec* s) { s->chunks = 2; }, "chunks: 2, but the table"},
      {[](JobSpec* s) { s->workers = 2; }, "workers: 2, but the table of schedule 'mine' needs 3"},
      {[](JobSpec* s) { s->max_replicas = 1; },
       "max_replicas: 1, but the table of schedule 'mine' has 2"},
      {[](JobSpec* s) {
         s->stages = 3;
         s->warmup = {1, 1, 1};
       },
       "warmup: given, but the table"},
      {[](JobSpec* s) { s->schedule_table = "schedule mine policy=flash"; },
       "schedule_table: schedule table, line 1 column 15"},
  };
  for (const Case& c : cases) {
    JobSpec spec = good;
    c.spoil(&spec);
    EXPECT_THAT(Validate(spec), StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(JobSpecTest, FaultsOfATableNameTheFileAndThePlace) {
  JobSpec spec = Good();
  EXPECT_THAT(SetScheduleTable("schedule mine policy=flush replicas=1 microbatches=1\ns0.r0: F0 X0",
                               "a.txt", &spec),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("a.txt: schedule table, line 2 column 11: instruction 'X0'")));
  EXPECT_THAT(SetScheduleTable("0F0,0G0\n", "b.csv", &spec),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("b.csv: schedule CSV, row 1 cell 2: '0G0'")));
  EXPECT_THAT(SetScheduleTable(std::string(kMaxScheduleTableBytes + 1, ' '), "c.txt", &spec),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("c.txt: a schedule of 1048577")));
  EXPECT_EQ(spec, Good());
}

TEST(JobSpecTest, ProgramsOfATableAreThoseOfTheWholeRun) {
  JobSpec spec = WithTable();
  spec.batch_size = 8;
  ScheduleShape shape = MakeScheduleShape(MakeRunShape(spec, 40, 0), {2, 1, 1}, {}, false);
  shape.device_of = {0, 1, 1};
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms(spec, shape));
  ASSERT_EQ(programs.size(), 3u);
  EXPECT_EQ(programs[2].shape.minibatches(), 5);
  EXPECT_EQ(programs[2].stages().size(), 2u);
  shape.replicas = {1, 1, 1};
  EXPECT_THAT(MakePrograms(spec, shape).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("replicas: 2,1,1 in the table")));
}

TEST(JobSpecTest, KnowsTheWorkersThatAJobNeeds) {
  JobSpec spec = Good();
  EXPECT_EQ(LeastWorkers(spec), 1);
  spec.stages = 4;
  EXPECT_EQ(LeastWorkers(spec), 4);
  spec.schedule = "zb_v";
  EXPECT_EQ(LeastWorkers(spec), 2);
  spec.workers = 3;
  EXPECT_EQ(LeastWorkers(spec), 3);
  EXPECT_EQ(LeastWorkers(WithTable()), 3);
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
