#include "common/codec/ledger_codec.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// 50 epochs of 9 minibatches of 4 microbatches and one of 3.
StageLedger Recorded() {
  StageLedger stage{StageId(2), ReplicaId(1), {}, {{0, 17}, {500, ~uint64_t{0}}}};
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t t = i / 4;
    if (i % 40 != 39) stage.versions.Append({i, t, t, t, t});
  }
  return stage;
}

TEST(LedgerCodec, RoundTripsNestedLoops) {
  const StageLedger ledger = Recorded();
  v1::StageLedger arrived;
  ASSERT_TRUE(arrived.ParseFromString(ToProto(ledger).SerializeAsString()));
  ASSERT_OK_AND_ASSIGN(StageLedger back, FromProto(arrived));
  EXPECT_EQ(back, ledger);
  EXPECT_EQ(back.versions.size(), 1950);
  EXPECT_LT(arrived.ByteSizeLong(), 1000u);
}

TEST(LedgerCodec, RefusesWhatNoRunMakes) {
  struct Case {
    void (*spoil)(v1::StageLedger*);
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {[](v1::StageLedger* m) { m->set_stage(-1); }, "StageLedger.stage: found -1"},
           {[](v1::StageLedger* m) { m->mutable_loops(0)->mutable_first()->RemoveLast(); },
            "an entry of 4 numbers"},
           {[](v1::StageLedger* m) { m->mutable_loops(0)->set_repeat(int64_t{1} << 60); },
            "repeats 1152921504606846976 times"},
           {[](v1::StageLedger* m) { m->mutable_loops(0)->set_repeat(-2); }, "repeats -2 times"},
           {[](v1::StageLedger* m) {
              v1::LedgerLoop* inner = m->mutable_loops(0);
              for (int depth = 0; depth < 8; ++depth) {
                if (inner->body_size() == 0) *inner->add_body()->mutable_first() = inner->first();
                inner = inner->mutable_body(0);
              }
            },
            "nested deeper than 5"},
           {[](v1::StageLedger* m) { m->set_omitted(-1); }, "-1 omitted"},
           {[](v1::StageLedger* m) {
              for (int i = 0; i < 100; ++i) m->add_digests();
            },
            "StageLedger.digests"},
       }) {
    v1::StageLedger message = ToProto(Recorded());
    c.spoil(&message);
    EXPECT_THAT(FromProto(message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace pipedream
