#include "common/schedule/ledger_check.h"

#include <gmock/gmock.h>

#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::ElementsAre;

// As if the run had followed the policy's formula, but for what `change` does.
template <typename F>
RunLedger Recorded(const ScheduleShape& shape, WeightPolicy policy, F&& change) {
  RunLedger ledger;
  for (int s = 0; s < shape.stages(); ++s) {
    for (int r = 0; r < shape.replicas[s]; ++r) {
      StageLedger stage{StageId(s), ReplicaId(r), {}, {}};
      for (int64_t i = r; i < shape.microbatches(); i += shape.replicas[s]) {
        LedgerEntry entry = ExpectedEntry(shape, policy, stage.stage, MicrobatchId(i));
        change(s, &entry);
        stage.versions.Append(entry);
      }
      ledger.stages.push_back(std::move(stage));
    }
  }
  return ledger;
}
RunLedger Recorded(const ScheduleShape& shape, WeightPolicy policy) {
  return Recorded(shape, policy, [](int, LedgerEntry*) {});
}

TEST(LedgerCheckTest, TellsThePoliciesApart) {
  const ScheduleShape rounds = MakeShape({1, 1, 1}, 20);
  const ScheduleShape minibatches = MakeShape({1, 1, 1}, 20, 4);
  for (auto [policy, shape] : {std::pair(WeightPolicy::kFlush, rounds),
                               {WeightPolicy::kFlush, minibatches},
                               {WeightPolicy::kStash, rounds},
                               {WeightPolicy::kVerticalSync, rounds},
                               {WeightPolicy::kDoubleBuffer, rounds},
                               {WeightPolicy::kDoubleBuffer, minibatches},
                               {WeightPolicy::kSingle, minibatches}}) {
    EXPECT_THAT(PoliciesFollowed(Recorded(shape, policy), shape), ElementsAre(policy))
        << PolicyName(policy);
  }
}

TEST(LedgerCheckTest, OnOneStageSeveralPoliciesAreTheSame) {
  const ScheduleShape shape = MakeShape({1}, 20);
  EXPECT_THAT(PoliciesFollowed(Recorded(shape, WeightPolicy::kFlush), shape),
              ElementsAre(WeightPolicy::kFlush, WeightPolicy::kStash, WeightPolicy::kVerticalSync,
                          WeightPolicy::kSingle));
}

struct Sabotage {
  const char* name;
  int64_t LedgerEntry::*member;
  const char* found;
};
void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << sabotage.name; }

class SabotageTest : public testing::TestWithParam<Sabotage> {};

TEST_P(SabotageTest, OneWrongNumberIsNamed) {
  // Stage 1 of three reads version i - 1: 16 for microbatch 17.
  const ScheduleShape shape = MakeShape({1, 1, 1}, 30);
  const RunLedger ledger = Recorded(shape, WeightPolicy::kStash, [](int s, LedgerEntry* entry) {
    if (s == 1 && entry->microbatch == 17) ++(entry->*GetParam().member);
  });
  EXPECT_FALSE(FindMissing(ledger, shape, AllFilled));
  auto fault = FindDeparture(ledger, shape, WeightPolicy::kStash);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->ToString(),
            std::string("stage 1 replica 0, microbatch 17: ") + GetParam().found);
  EXPECT_THAT(PoliciesFollowed(ledger, shape), testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms("pipedream", shape));
  EXPECT_EQ(FindDeparture(ledger, programs, AllFilled), fault);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, SabotageTest,
    testing::Values(Sabotage{"Forward", &LedgerEntry::forward,
                             "its forward reads version 17, expected version 16"},
                    Sabotage{"Backward", &LedgerEntry::backward,
                             "its backward reads version 17, expected version 16"},
                    Sabotage{"WeightGradient", &LedgerEntry::weight,
                             "its weight gradient reads version 17, expected version 16"},
                    Sabotage{"Update", &LedgerEntry::update,
                             "its gradient enters update 18, expected update 17"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LedgerCheckTest, ProgramsSayTheOrderToo) {
  const ScheduleShape shape = MakeShape({1}, 1, 3);
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms("1f1b", shape));
  StageLedger stage{StageId(0), ReplicaId(0), {}, {}};
  for (int64_t i : {0, 2, 1}) stage.versions.Append({i, 0, 0, 0, 0});
  const RunLedger ledger{{stage}};
  EXPECT_FALSE(FindMissing(ledger, shape, AllFilled));
  EXPECT_FALSE(FindDeparture(ledger, shape, WeightPolicy::kFlush));
  auto fault = FindDeparture(ledger, programs, AllFilled);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->ToString(),
            "stage 0 replica 0, microbatch 2: comes next: microbatch 2, expected microbatch 1");
}

TEST(LedgerCheckTest, NamesWhatIsMissingAndWhatIsTooMuch) {
  const ScheduleShape shape = MakeShape({2, 1}, 6);
  const RunLedger whole = Recorded(shape, WeightPolicy::kFlush);
  EXPECT_FALSE(FindMissing(whole, shape, AllFilled));
  auto text = [&](const RunLedger& ledger) {
    auto fault = FindMissing(ledger, shape, AllFilled);
    return fault ? fault->ToString() : "";
  };
  RunLedger ledger = whole;
  ledger.stages.erase(ledger.stages.begin() + 1);
  EXPECT_EQ(text(ledger),
            "stage 0 replica 1: the ledger holds nothing of it, expected this stage replica");
  ledger = whole;
  ledger.stages[1].versions.Append({3, 3, 3, 3, 3});
  EXPECT_EQ(text(ledger),
            "stage 0 replica 1, microbatch 3: the ledger holds it twice, expected once");
  ledger = whole;
  ledger.stages[1].versions.Append({4, 4, 4, 4, 4});
  EXPECT_EQ(text(ledger),
            "stage 0 replica 1, microbatch 4: the ledger holds it, expected another replica to "
            "have it, or nobody");
  ledger = whole;
  ledger.stages[2].versions = VersionLedger();
  for (int64_t i : {0, 1, 2, 4, 5}) ledger.stages[2].versions.Append({i, i, i, i, i});
  EXPECT_EQ(text(ledger),
            "stage 1 replica 0, microbatch 3: the ledger holds nothing of it, expected it once");
  EXPECT_TRUE(FindMissing(ledger, shape, [](MicrobatchId i) { return i.value() != 3; }));
  ledger = whole;
  ledger.stages.push_back({StageId(2), ReplicaId(0), {}, {}});
  EXPECT_EQ(text(ledger),
            "stage 2 replica 0: the ledger holds it, expected no such stage replica in the run");
}

TEST(LedgerCheckTest, ComparesWeightsByVersion) {
  RunLedger run{{{StageId(0), ReplicaId(0), {}, {{0, 1}, {1, 2}, {9, 3}}},
                 {StageId(0), ReplicaId(1), {}, {{0, 1}, {1, 2}, {9, 3}}},
                 {StageId(1), ReplicaId(0), {}, {{0, 4}, {1, 5}, {9, 6}}}}};
  EXPECT_FALSE(FindUnequalReplicas(run));
  RunLedger replay = run;
  for (StageLedger& stage : replay.stages) stage.digests.pop_back();
  int64_t compared = 0;
  EXPECT_FALSE(FindOtherWeights(run, replay, &compared));
  EXPECT_EQ(compared, 6);
  run.stages[1].digests[1].hash = 0xbad;
  auto fault = FindUnequalReplicas(run);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->ToString(),
            "stage 0 replica 1: the weights of version 1 have digest 0000000000000bad, expected "
            "0000000000000002 as in replica 0");
  // The earliest version counts, not the first stage.
  run.stages[2].digests[0].hash = 0xfee;
  fault = FindOtherWeights(run, replay, &compared);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->ToString(),
            "stage 1 replica 0: the weights of version 0 have digest 0000000000000fee, expected "
            "0000000000000004");
}

}  // namespace
}  // namespace pipedream
