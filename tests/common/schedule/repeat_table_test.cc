#include "common/schedule/repeat_table.h"

#include "common/schedule/pytorch_csv.h"
#include "common/schedule/schedules.h"
#include "common/schedule/simulate.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// A schedule that the library does not have: 1F1B in which two forwards and two backwards are taken
// at a time ("forward doubling"). Two stages, four microbatches.
constexpr char kDoublingText[] =
    "schedule forward_doubling policy=flush replicas=1,1 microbatches=4\n"
    "s0.r0: F0 F1 F2 F3 B0 B1 B2 B3\n"
    "s1.r0: F0 F1 B0 B1 F2 F3 B2 B3\n";
constexpr char kDoublingCsv[] =
    "0F0,0F1,0F2,0F3,,,0B0,,0B1,,0B2,0B3\n"
    ",1F0,1F1,1B0,,1B1,,1F2,1F3,1B2,,1B3\n";

TEST(RepeatTable, AScheduleFromOutsideRunsWithoutMore) {
  const ScheduleShape run = MakeShape({1, 1}, 3, 4, 2, 2);
  std::vector<StageProgram> first;
  for (const char* text : {kDoublingText, kDoublingCsv}) {
    ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(text));
    ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(pattern, run));
    EXPECT_EQ(table.shape, run);
    ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms(table));
    EXPECT_TRUE(first.empty() || programs == first);
    first = programs;
    ASSERT_EQ(programs.size(), 2u);
    std::string text_of_last;
    for (const Instruction& instruction : Unroll(programs[1])) {
      if (!IsCompute(instruction.op) && instruction.op != Op::kStep) continue;
      text_of_last += (text_of_last.empty() ? "" : " ") + Format(instruction);
    }
    EXPECT_EQ(text_of_last,
              "F0@v0#0 F1@v0#1 B0@v0#0 B1@v0#1 F2@v0#0 F3@v0#1 B2@v0#0 B3@v0#1 U0->v1 "
              "F4@v1#0 F5@v1#1 B4@v1#0 B5@v1#1 F6@v1#0 F7@v1#1 B6@v1#0 B7@v1#1 U1->v2 "
              "F8@v2#0 F9@v2#1 B8@v2#0 B9@v2#1 F10@v2#0 F11@v2#1 B10@v2#0 B11@v2#1 U2->v3 "
              "E0@v3 E1@v3 "
              "F12@v3#0 F13@v3#1 B12@v3#0 B13@v3#1 F14@v3#0 F15@v3#1 B14@v3#0 B15@v3#1 U3->v4 "
              "F16@v4#0 F17@v4#1 B16@v4#0 B17@v4#1 F18@v4#0 F19@v4#1 B18@v4#0 B19@v4#1 U4->v5 "
              "F20@v5#0 F21@v5#1 B20@v5#0 B21@v5#1 F22@v5#0 F23@v5#1 B22@v5#0 B23@v5#1 U5->v6 "
              "E2@v6 E3@v6");
    SimulateOptions costs;
    costs.stages.assign(2, {.forward_s = 1, .backward_s = 2, .backward_input_s = 1});
    EXPECT_OK(Simulate(programs, costs));
  }
}

TEST(RepeatTable, EdgesTiesAndNormsAreTheRuns) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(kDoublingText));
  ScheduleShape run = MakeShape({1, 1}, 2, 4);
  run.global_norm = true;
  run.tied_stages = {0, 1};
  run.edges = {{0, 1, true}};
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(pattern, run));
  EXPECT_EQ(table.shape, run);
  EXPECT_OK(MakePrograms(table));
}

// Of every synchronous schedule: one minibatch, written down in each notation and read again,
// makes the run that the builder makes.
TEST(RepeatTable, OneMinibatchMakesTheBuildersRun) {
  uint32_t seed = TestSeed(5);
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int runs = 0;
  while (runs < 240) {
    const ScheduleInfo& info = AllSchedules()[random() % AllSchedules().size()];
    if (!info.synchronous) continue;
    ScheduleShape run = RandomShape(random, info);
    SCOPED_TRACE(std::string(info.name) + ": " + Describe(run));
    ScheduleShape one = run;
    one.minibatches_per_epoch = one.epochs = 1;
    one.evaluation_microbatches = 0;
    ASSERT_OK_AND_ASSIGN(ScheduleTable expected, info.build(run));
    ASSERT_OK_AND_ASSIGN(ScheduleTable minibatch, info.build(one));
    ASSERT_OK_AND_ASSIGN(ScheduleTable lowered, LowerTable(minibatch));
    std::vector<std::string> files = {FormatTable(minibatch), FormatTable(lowered)};
    for (const std::string& file : files) {
      ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(file));
      ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(pattern, run));
      ASSERT_EQ(table.programs, expected.programs) << file;
      ASSERT_EQ(table.shape, run);
    }
    // The CSV notation cannot say that updates are validated later.
    if (absl::StatusOr<std::string> csv = FormatPyTorchCsv(minibatch); csv.ok()) {
      for (auto& program : expected.programs) {
        std::erase_if(program, [](const Instruction& i) { return i.op == Op::kValidate; });
      }
      ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(*csv));
      ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(pattern, run));
      ASSERT_EQ(table.programs, expected.programs) << *csv;
    }
    ++runs;
  }
}

TEST(RepeatTable, OtherPoliciesAreTakenAsTheWholeRun) {
  for (const char* schedule : {"pipedream", "pipedream_vsync", "2bw", "paci"}) {
    SCOPED_TRACE(schedule);
    const ScheduleInfo& info = **FindSchedule(schedule);
    ScheduleShape run = MakeShape({1, 1, 1}, 4, UpdatesByMinibatch(info) ? 4 : 1, 2, 2);
    ASSERT_OK_AND_ASSIGN(ScheduleTable expected, info.build(run));
    ASSERT_OK_AND_ASSIGN(ScheduleTable lowered, LowerTable(expected));
    ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(FormatTable(lowered)));
    run.global_norm = true;
    ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(pattern, run));
    EXPECT_EQ(table.programs, expected.programs);
    EXPECT_EQ(table.shape, run);
    EXPECT_OK(MakePrograms(table));
    run.minibatches_per_epoch = 5;
    EXPECT_THAT(RepeatTable(pattern, run),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("minibatches per epoch: 4 in the table, 5 in the run")));
  }
}

TEST(RepeatTable, SeveralSynchronousMinibatchesAreTheWholeRun) {
  const ScheduleShape run = MakeShape({1, 1}, 3, 2);
  ASSERT_OK_AND_ASSIGN(ScheduleTable whole, (*FindSchedule("zb_h1"))->build(run));
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, RepeatTable(whole, run));
  EXPECT_EQ(table, whole);
  EXPECT_THAT(RepeatTable(whole, MakeShape({1, 1}, 3, 2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("epochs: 1 in the table, 2 in the run")));
}

TEST(RepeatTable, ErrorsNameTheFieldThatDoesNotAgree) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable pattern, ParseScheduleFile(kDoublingText));
  auto expect = [&](const ScheduleShape& run, const std::string& message) {
    EXPECT_THAT(RepeatTable(pattern, run),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect(MakeShape({1, 1, 1}, 3, 4), "forward_doubling: stages: 2 in the table, 3 in the run");
  expect(MakeShape({2, 1}, 3, 4), "replicas: 1,1 in the table, 2,1 in the run");
  expect(MakeShape({1, 1}, 3, 8), "microbatches per minibatch: 4 in the table, 8 in the run");
  ScheduleShape other_devices = MakeShape({1, 1}, 3, 4);
  other_devices.device_of = {1, 0};
  expect(other_devices, "devices of the stages: 0,1 in the table, 1,0 in the run");
  expect(MakeShape({1, 1}, 0, 4), "minibatches_per_epoch: 0");
  pattern.programs.pop_back();
  expect(MakeShape({1, 1}, 3, 4), "programs: 1 in the table, 2 in the run");
}

TEST(RepeatTable, InstructionsOfNoMicrobatchOrChunkAreNamed) {
  auto expect = [](const std::string& row, const std::string& message) {
    ASSERT_OK_AND_ASSIGN(ScheduleTable pattern,
                         ParseTable("schedule x policy=flush replicas=1 microbatches=2\n" + row));
    EXPECT_THAT(RepeatTable(pattern, MakeShape({1}, 2, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect("s0.r0: F0 B0 F2 B2", "stage 0 replica 0: F2, but there are 2 microbatches");
  expect("s0.r0: F0 B0 F1c1 B1", "stage 0 replica 0: F1c1, but there are 1 chunks");
}

TEST(ParseScheduleFile, SaysWhatItExpected) {
  EXPECT_THAT(ParseScheduleFile("forward first, then backward"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("begins with 'forward', expected 'schedule NAME")));
  EXPECT_THAT(ParseScheduleFile(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("begins with ''")));
  EXPECT_THAT(ParseScheduleFile("\n schedule x colour=red"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2 column 13")));
  EXPECT_THAT(ParseScheduleFile("0F0,0X0"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 1 cell 2")));
}

}  // namespace
}  // namespace pipedream
