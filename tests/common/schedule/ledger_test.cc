#include "common/schedule/ledger.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "common/schedule/ledger_check.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

std::vector<LedgerEntry> EntriesOf(const VersionLedger& ledger) {
  std::vector<LedgerEntry> out;
  ledger.ForEach([&](const LedgerEntry& entry) {
    out.push_back(entry);
    return true;
  });
  return out;
}

VersionLedger LedgerWith(const std::vector<LedgerEntry>& entries) {
  VersionLedger ledger;
  for (const LedgerEntry& entry : entries) ledger.Append(entry);
  return ledger;
}

TEST(VersionLedgerTest, KeepsEveryEntryInItsOrder) {
  const uint32_t seed = TestSeed(4711);
  std::mt19937 random(seed);
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}, round {}", seed, round));
    // Patterns that repeat, in patterns that repeat, broken now and then.
    const int64_t inner = draw(1, 9), outer = draw(1, 6), breaks = draw(0, 3);
    std::vector<LedgerEntry> entries;
    LedgerEntry at;
    for (int k = 0; k < 400; ++k) {
      entries.push_back(at);
      at.microbatch += k % inner == 0 ? 2 : 1;
      at.forward += k % (inner * outer) == 0;
      at.backward += k % inner == inner / 2;
      at.weight = at.backward;
      at.update += k % inner == 0;
      if (breaks > 0 && draw(0, 60) < breaks) at.forward += draw(-2, 2);
    }
    const VersionLedger ledger = LedgerWith(entries);
    EXPECT_EQ(ledger.size(), std::ssize(entries));
    ASSERT_EQ(EntriesOf(ledger), entries);
    ASSERT_OK_AND_ASSIGN(VersionLedger again, VersionLedger::FromLoops(ledger.loops(), 0));
    EXPECT_EQ(again, ledger);
    EXPECT_EQ(again.size(), ledger.size());
  }
}

// Of every schedule, on random pipelines: what its program tells the executor to read is what its
// formula promises.
TEST(LedgerOfTest, EverySchedulesLedgerFollowsItsFormula) {
  const uint32_t seed = TestSeed(20240703);
  std::mt19937 random(seed);
  for (const ScheduleInfo& info : AllSchedules()) {
    int drawn = 0;
    while (drawn < 40) {
      const ScheduleShape shape = RandomShape(random, info);
      if (!info.check(shape).ok()) continue;
      absl::StatusOr<std::vector<StageProgram>> programs = MakePrograms(info.name, shape);
      if (!programs.ok()) continue;
      ++drawn;
      SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}: {} {}", seed, info.name, Describe(shape)));
      std::vector<StageLedger> stages;
      for (const StageProgram& program : *programs) {
        for (int chunk = 0; chunk < std::ssize(program.stages()); ++chunk)
          stages.push_back(
              {program.stages()[chunk], program.replica, LedgerOf(program, chunk, AllFilled), {}});
      }
      ASSERT_OK_AND_ASSIGN(RunLedger ledger, MergeLedgers(std::move(stages)));
      auto missing = FindMissing(ledger, shape, AllFilled);
      ASSERT_FALSE(missing) << missing->ToString();
      auto departure = FindDeparture(ledger, shape, info.policy);
      ASSERT_FALSE(departure) << departure->ToString();
      EXPECT_THAT(PoliciesFollowed(ledger, shape),
                  testing::Contains(info.synchronous ? WeightPolicy::kFlush : info.policy));
      ASSERT_OK_AND_ASSIGN(RunLedger parsed, ParseLedger(FormatLedger(ledger)));
      EXPECT_EQ(parsed, ledger);
    }
  }
}

struct LongRun {
  const char* name;
  WeightPolicy policy;
  int microbatches;
  int empty;  // microbatches of each epoch's last minibatch that hold no samples
};
void PrintTo(const LongRun& run, std::ostream* out) { *out << run.name; }

class LongRunTest : public testing::TestWithParam<LongRun> {};

TEST_P(LongRunTest, AMillionMicrobatchesTakeAFewKilobytes) {
  const LongRun& run = GetParam();
  constexpr int64_t kEpochs = 100;
  ScheduleShape shape =
      MakeShape({2, 1, 1}, 1'000'000 / kEpochs / run.microbatches, run.microbatches, kEpochs);
  const int64_t epoch = shape.microbatches() / kEpochs;
  RunLedger ledger;
  for (int s = 0; s < 3; ++s) {
    for (int r = 0; r < shape.replicas[s]; ++r) {
      StageLedger stage{StageId(s), ReplicaId(r), {}, {}};
      for (int64_t i = r; i < shape.microbatches(); i += shape.replicas[s]) {
        if (i % epoch < epoch - run.empty)
          stage.versions.Append(ExpectedEntry(shape, run.policy, stage.stage, MicrobatchId(i)));
      }
      EXPECT_EQ(stage.versions.omitted(), 0);
      ledger.stages.push_back(std::move(stage));
    }
  }
  EXPECT_LT(FormatLedger(ledger).size(), 4096u) << FormatLedger(ledger).substr(0, 4096);
}

INSTANTIATE_TEST_SUITE_P(Policies, LongRunTest,
                         testing::Values(LongRun{"Flush", WeightPolicy::kFlush, 8, 0},
                                         LongRun{"FlushPartly", WeightPolicy::kFlush, 8, 3},
                                         LongRun{"FlushWide", WeightPolicy::kFlush, 100, 30},
                                         LongRun{"Stash", WeightPolicy::kStash, 1, 0},
                                         LongRun{"VerticalSync", WeightPolicy::kVerticalSync, 1, 0},
                                         LongRun{"DoubleBuffer", WeightPolicy::kDoubleBuffer, 4, 0},
                                         LongRun{"DoubleBufferPartly", WeightPolicy::kDoubleBuffer,
                                                 10, 4},
                                         LongRun{"Single", WeightPolicy::kSingle, 8, 0},
                                         LongRun{"SinglePartly", WeightPolicy::kSingle, 8, 5}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VersionLedgerTest, AChaoticRunIsBounded) {
  const uint32_t seed = TestSeed(99);
  SCOPED_TRACE(fmt::format("PIPEDREAM_TEST_SEED={}", seed));
  std::mt19937 random(seed);
  VersionLedger ledger;
  constexpr int64_t kEntries = 100'000;
  for (int64_t i = 0; i < kEntries; ++i)
    ledger.Append({i, static_cast<int64_t>(random() % 1000), i, i, i});
  EXPECT_LE(ledger.loops().size(), VersionLedger::kMaxLoops);
  EXPECT_GT(ledger.omitted(), 0);
  EXPECT_EQ(ledger.size() + ledger.omitted(), kEntries);
  RunLedger run{{{StageId(0), ReplicaId(0), ledger, {}}}};
  ASSERT_OK_AND_ASSIGN(RunLedger parsed, ParseLedger(FormatLedger(run)));
  EXPECT_EQ(parsed, run);
  auto missing = FindMissing(run, MakeShape({1}, kEntries), AllFilled);
  ASSERT_TRUE(missing);
  EXPECT_THAT(missing->ToString(), HasSubstr("it was full"));
}

TEST(VersionLedgerTest, RefusesLoopsThatNoRunMakes) {
  auto refuses = [](std::vector<LedgerLoop> loops, const char* why) {
    EXPECT_THAT(VersionLedger::FromLoops(std::move(loops), 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const LedgerLoop one{{7, 1, 1, 1, 7}};
  refuses({{one.first, {}, kMaxMicrobatches + 1, {}}}, "repeats 16777217 times");
  refuses({{one.first, {}, 0, {}}}, "repeats 0 times");
  refuses({{{int64_t{1} << 40}}}, "more than 32 bits");
  refuses({{{}, {}, 2, {one}}}, "does not begin");
  LedgerLoop nested = one;
  for (int depth = 0; depth < VersionLedger::kMaxDepth; ++depth)
    nested = {one.first, {}, 1, {nested}};
  refuses({nested}, "nested deeper");
  LedgerLoop large{one.first, {}, int64_t{1} << 20, {}};
  refuses({{one.first, {}, int64_t{1} << 20, {large}}}, "repeats 1048576 times");
}

TEST(LedgerTextTest, SaysWhatTheLedgerHolds) {
  RunLedger ledger;
  // Two microbatches per update, the second stage of a 2BW run.
  StageLedger stage{StageId(1), ReplicaId(0), {}, {{0, 0xabc}, {3, ~uint64_t{0}}}};
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t t = i / 2, read = std::max<int64_t>(0, t - 1);
    stage.versions.Append({i, read, read, read, t});
  }
  ledger.stages.push_back(stage);
  EXPECT_EQ(FormatLedger(ledger),
            "stage 1 replica 0\n"
            "(0:0,0,0>0*2+1:0,0,0>0)*2+2:0,0,0>1\n"
            "4:1,1,1>2*2+1:0,0,0>0\n"
            "6:2,2,2>3*2+1:0,0,0>0\n"
            "digest 0 0000000000000abc\n"
            "digest 3 ffffffffffffffff\n");
}

TEST(LedgerTextTest, NamesLineAndColumnOfAFault) {
  auto refuses = [](const char* text, const char* why) {
    EXPECT_THAT(ParseLedger(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  };
  refuses("0:0,0,0>0\n", "line 1: column 1: expected 'stage '");
  refuses("stage 0 replica 0\n0:0,0>0\n", "line 2: column 6: expected ','");
  refuses("stage 0 replica 0\n(0:0,0,0>0\n", "expected ' ' or ')'");
  refuses("stage 0 replica 0\n0:0,0,0>0 \n", "expected the line's end");
  refuses("stage 0 replica 0\ndigest 1 xyz\n", "column 10: expected a hash");
  refuses("stage 0 replica 0\n((((((0:0,0,0>0))))))\n", "nested deeper");
  refuses("stage 0 replica 0\nstage 0 replica 0\n", "two ledgers");
}

TEST(KeepsDigestTest, TheFirstTheLastAndABoundedNumberBetween) {
  for (int64_t updates : {1, 2, 5, 60, 63, 64, 65, 1000, 999'999}) {
    int64_t kept = 0;
    for (int64_t version = 0; version <= updates; ++version) kept += KeepsDigest(version, updates);
    EXPECT_LE(kept, kMaxDigests) << updates;
    EXPECT_GE(kept, std::min<int64_t>(updates + 1, kMaxDigests / 2)) << updates;
    for (int64_t version : {int64_t{0}, int64_t{1}, updates})
      EXPECT_TRUE(KeepsDigest(version, updates));
  }
}

}  // namespace
}  // namespace pipedream
