#include "common/schedule/validate.h"

#include <algorithm>

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ScheduleTable Lowered(std::string_view schedule, const ScheduleShape& shape) {
  return *LowerTable(*(*FindSchedule(schedule))->build(shape));
}

// Two stages of one replica, two microbatches: small enough to read.
constexpr char kHeader[] = "schedule x policy=stash replicas=1,1 minibatches_per_epoch=2\n";
constexpr char kStage0[] =
    "s0.r0: F0@v0#0 SA0>1.0 F1@v0#1 SA1>1.0 RG0<1.0 B0@v0#0 U0->v1 RG1<1.0 B1@v0#1 U1->v2\n";
constexpr char kStage1[] =
    "s1.r0: RA0<0.0 F0@v0#0 B0@v0#0 SG0>0.0 U0->v1 RA1<0.0 F1@v1#0 B1@v1#0 SG1>0.0 U1->v2\n";

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

absl::Status ValidateText(const std::string& text) {
  absl::StatusOr<ScheduleTable> table = ParseTable(text);
  return table.ok() ? ValidateTable(*table) : table.status();
}

struct Broken {
  const char* name;
  const char* stage0_from;
  const char* stage0_to;
  const char* stage1_from;
  const char* stage1_to;
  const char* message;
};

class BrokenTables : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTables, AreRefusedByRule) {
  const Broken& broken = GetParam();
  std::string text = kHeader + Replaced(kStage0, broken.stage0_from, broken.stage0_to) +
                     Replaced(kStage1, broken.stage1_from, broken.stage1_to);
  EXPECT_THAT(ValidateText(text),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(broken.message)));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BrokenTables,
    testing::Values(
        Broken{"NoForward", "F1@v0#1 SA1>1.0 ", "", "U1", "U1", "V2: stage 0 replica 0"},
        Broken{"ForwardTwice", "F1@v0#1", "F1@v0#1 F1@v0#2", "U1", "U1",
               "V1: stage 0 replica 0, instruction 3"},
        Broken{"NoBackward", "", "", "B1@v1#0 SG1>0.0 U1->v2", "", "V7: stage 1 replica 0"},
        Broken{"UnknownMicrobatch", "U1->v2", "U1->v2 F2@v2#0", "U1", "U1", "V1: stage 0"},
        Broken{"NoLastUpdate", "U1->v2", "", "U1", "U1", "V1: stage 0"},
        Broken{"UpdateBeforeBackward", "B0@v0#0 U0->v1", "U0->v1 B0@v0#0", "U1", "U1",
               "V2: stage 0 replica 0, instruction 5"},
        Broken{"ForwardBeforeReceive", "U1", "U1", "RA1<0.0 F1@v1#0", "F1@v1#0 RA1<0.0",
               "V2: stage 1"},
        Broken{"BackwardReadsAnother", "B1@v0#1", "B1@v1#1", "U1", "U1",
               "V3: stage 0 replica 0, instruction 8: B1@v1#1 must read version 0"},
        Broken{"ForwardReadsOld", "U1", "U1", "F1@v1#0", "F1@v0#0", "V4: stage 1"},
        Broken{"ForwardReadsFuture", "F1@v0#1", "F1@v1#1", "U1", "U1", "V4: stage 0"},
        Broken{"VersionSkipped", "U1->v2", "U1->v3", "U1", "U1", "V4: stage 0"},
        Broken{"UpdateSkipped", "U0->v1", "", "U1", "U1", "V2: stage 0"},
        Broken{"UnpinWithoutPin", "U0->v1", "U0->v1 Q@v0", "U1", "U1", "V4: stage 0"},
        Broken{"PinForEver", "U0->v1", "U0->v1 P@v1", "U1", "U1", "V4: stage 0"},
        Broken{"SendToNobody", "SA1>1.0", "SA1>1.1", "U1", "U1", "V5: stage 0"},
        Broken{"OrderDiffers", "F0@v0#0 SA0>1.0 F1@v0#1 SA1>1.0", "F0@v0#0 F1@v0#1 SA1>1.0 SA0>1.0",
               "U1", "U1", "V5: stage 1"},
        Broken{"NeverReceived", "U1", "U1", "RA1<0.0 F1@v1#0 B1@v1#0 SG1>0.0 U1->v2", "",
               "V1: stage 1"},
        Broken{"NothingToReduce", "U0->v1", "R0 U0->v1", "U1", "U1", "V6: stage 0"},
        Broken{"SlotInUse", "F1@v0#1", "F1@v0#0", "U1", "U1",
               "V7: stage 0 replica 0, instruction 2: F1@v0#0 overwrites slot 0"},
        Broken{"SlotMissing", "F0@v0#0", "F0@v0", "U1", "U1", "V7: stage 0"},
        Broken{"OtherSlot", "B1@v0#1", "B1@v0#0", "U1", "U1", "V7: stage 0"},
        Broken{"TooStale", "RG0<1.0", "RG0<1.0", "B0@v0#0 SG0>0.0 U0->v1 RA1<0.0 F1@v1#0 B1@v1#0",
               "RA1<0.0 F1@v0#1 B0@v0#0 SG0>0.0 U0->v1 B1@v0#1",
               "V10: stage 1 replica 0, instruction 3: microbatch 1 reads version 0: 1 updates "
               "stale, the bound is 0"}),
    [](const auto& test) { return test.param.name; });

TEST(Validate, AcceptsTheUnbrokenTable) {
  EXPECT_OK(ValidateText(std::string(kHeader) + kStage0 + kStage1));
}

TEST(Validate, MessageShowsTheCellAmongItsNeighbours) {
  std::string text = kHeader + Replaced(kStage0, "B1@v0#1", "B1@v1#1") + kStage1;
  EXPECT_THAT(ValidateText(text),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\n> s0.r0 01a|[B1@v1#1]|\n"
                                                                     "  s1.r0 0a|1b|")));
}

// Stage 1 wants a second forward before its first backward, which stage 0 awaits.
TEST(Validate, DeadlockIsFound) {
  EXPECT_THAT(
      ValidateText(
          "schedule x policy=stash replicas=1,1 minibatches_per_epoch=2 warmup=0,1\n"
          "s0.r0: F0@v0#0 SA0>1.0 RG0<1.0 B0@v0#0 U0->v1 F1@v1#0 SA1>1.0 RG1<1.0 B1@v1#0 U1->v2\n"
          "s1.r0: RA0<0.0 F0@v0#0 RA1<0.0 F1@v0#1 B0@v0#0 SG0>0.0 U0->v1 B1@v0#1 SG1>0.0 U1->v2\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::AllOf(
                   StartsWith("V9: stage 0 replica 0, instruction 2: deadlock: RG0<1.0 waits"),
                   HasSubstr("\n> s0.r0 0[RG0<1.0]a|1b|\n  s1.r0 01a|b|"))));
}

TEST(Validate, CollectivesMustMeet) {
  ScheduleTable table = Lowered("1f1b", MakeShape({2, 1}, 2, 2));
  std::vector<Instruction>& row = table.programs[1];
  auto last_reduce = std::find_if(row.rbegin(), row.rend(),
                                  [](const Instruction& i) { return i.op == Op::kReduce; });
  row.erase(std::next(last_reduce).base());
  EXPECT_THAT(ValidateTable(table),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("V6: stage 0 replica 1")));
}

TEST(Validate, FlushReadsTheVersionOfItsMinibatch) {
  ScheduleTable table = Lowered("gpipe", MakeShape({1}, 2, 2));
  for (Instruction& i : table.programs[0]) {
    if (i.op == Op::kForward && i.microbatch == MicrobatchId(3)) i.version = WeightVersion(0);
  }
  EXPECT_THAT(ValidateTable(table), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("V4")));
}

TEST(Validate, MemoryIsCountedInVersionsAndActivations) {
  ScheduleTable table = Lowered("pipedream", MakeShape({1, 1, 1, 1}, 12));
  // Stage 0: 4 versions of 10, 4 activations of 100, 7 more.
  StageMemory enough{
      .version_bytes = 10, .activation_bytes = 100, .fixed_bytes = 7, .limit_bytes = 447};
  ValidateOptions options;
  options.memory.assign(4, enough);
  EXPECT_OK(ValidateTable(table, options));
  options.memory[0].limit_bytes = 446;
  EXPECT_THAT(ValidateTable(table, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(StartsWith("V8: stage 0"), HasSubstr("447 bytes needed"))));
  options.memory.pop_back();
  EXPECT_THAT(ValidateTable(table, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("memory: 3 entries")));
}

TEST(Validate, ProgramMustDeclareWhatItUses) {
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs,
                       MakePrograms("pipedream", MakeShape({1, 1, 1}, 9)));
  EXPECT_EQ(programs[0].needs[0].slots, 3);
  EXPECT_EQ(programs[0].needs[0].versions, 3);
  EXPECT_OK(ValidateProgram(programs[0]));
  --programs[0].needs[0].slots;
  EXPECT_THAT(ValidateProgram(programs[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("V7")));
  ++programs[0].needs[0].slots;
  --programs[0].needs[0].versions;
  EXPECT_THAT(ValidateProgram(programs[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("V4")));
}

TEST(Validate, ProgramsMustBeAllOfOneRun) {
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs,
                       MakePrograms("pipedream", MakeShape({1, 1}, 9)));
  std::swap(programs[0], programs[1]);
  EXPECT_THAT(ValidatePrograms(programs),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("program 0 is of stage 1")));
  programs.pop_back();
  EXPECT_THAT(ValidatePrograms(programs), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("1 programs, the shape has 2")));
}

// Swaps that leave a right schedule are of neighbours that have no business with each other, such
// as a send and the update after it. Swapping neighbours of the same channel or of one microbatch
// is always a fault.
bool MayCommute(const Instruction& a, const Instruction& b) {
  if (IsCompute(a.op) && IsCompute(b.op)) return true;  // F1 B0, B6 B7: where versions allow it
  if (a.peer != b.peer) return true;                    // of different channels
  return CounterOf(a.op) != CounterOf(b.op) || a.microbatch != b.microbatch;
}

TEST(Validate, CatchesMutations) {
  uint32_t seed = TestSeed(3);
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int caught[3] = {}, tried[3] = {};
  for (int k = 0; k < 3000; ++k) {
    const ScheduleInfo& info = AllSchedules()[k % AllSchedules().size()];
    ScheduleShape shape = RandomShape(random, info);
    ScheduleTable table = Lowered(info.name, shape);
    ScheduleTable mutated = table;
    std::vector<Instruction>& row = mutated.programs[random() % mutated.programs.size()];
    size_t at = random() % row.size(), other = random() % row.size();
    const Instruction instruction = row[at];
    int kind = static_cast<int>(random() % 3);  // drop, duplicate, swap
    if (kind == 0) {
      row.erase(row.begin() + at);
    } else if (kind == 1) {
      row.insert(row.begin() + other, instruction);
    } else {
      if (row[at] == row[other]) continue;
      std::swap(row[at], row[other]);
    }
    ++tried[kind];
    if (!ValidateTable(mutated, {.channel_slots = 64, .memory = {}}).ok()) {
      ++caught[kind];
      continue;
    }
    EXPECT_EQ(kind, 2) << Format(instruction) << " in " << Describe(shape);
    EXPECT_TRUE(MayCommute(row[at], row[other])) << Format(row[at]) << " " << Format(row[other]);
  }
  fmt::print("caught: dropped {}/{}, duplicated {}/{}, swapped {}/{}\n", caught[0], tried[0],
             caught[1], tried[1], caught[2], tried[2]);
  EXPECT_EQ(caught[0], tried[0]);
  EXPECT_EQ(caught[1], tried[1]);
  EXPECT_GE(caught[2] * 100, tried[2] * 95);
}

}  // namespace
}  // namespace pipedream
