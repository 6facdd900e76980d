#include "common/codec/schedule_codec.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Instruction Compute(Op op, int64_t microbatch, int64_t version, int32_t slot) {
  Instruction i;
  i.op = op;
  i.microbatch = MicrobatchId(microbatch);
  i.version = WeightVersion(version);
  i.slot = slot;
  return i;
}

Instruction Transfer(Op op, int64_t microbatch, int stage, int replica) {
  Instruction i;
  i.op = op;
  i.microbatch = MicrobatchId(microbatch);
  i.peer = {StageId(stage), ReplicaId(replica)};
  return i;
}

StageProgram FullProgram() {
  StageProgram program;
  program.stage = StageId(1);
  program.replica = ReplicaId(1);
  program.shape = {{1, 2, 1, 2},
                   10,
                   3,
                   4,
                   5,
                   {3, 2, 1, 0},
                   true,
                   {0, 1, 2, 1},
                   {{0, 1}, {0, 3, false}, {1, 2}, {2, 3}},
                   {0, 2}};
  program.policy = WeightPolicy::kFlush;
  program.blocks.push_back({1, 0, 0, 0, 0, {Transfer(Op::kReceiveActivation, 1, 0, 0)}});
  program.blocks.push_back(
      {8,
       2,
       1,
       3,
       4,
       {Compute(Op::kForward, 1, 0, 0), Transfer(Op::kSendActivation, 1, 2, 0),
        Transfer(Op::kReceiveGradient, 1, 2, 0), Compute(Op::kBackward, 1, 0, 0)}});
  program.needs = {{6, 7, 2, true}, {8, 9, 1, false}};
  program.channel_slots = 4;
  return program;
}

TEST(ScheduleCodec, RoundTripsAProgramWithEveryFieldSet) {
  v1::StageProgram arrived;
  ASSERT_TRUE(arrived.ParseFromString(ToProto(FullProgram()).SerializeAsString()));
  ASSERT_OK_AND_ASSIGN(StageProgram back, FromProto(arrived));
  EXPECT_EQ(back, FullProgram());
}

TEST(ScheduleCodec, WritesInstructionsAsText) {
  v1::StageProgram message = ToProto(FullProgram());
  EXPECT_THAT(message.blocks(1).body(), ElementsAre("F1@v0#0", "SA1>2.0", "RG1<2.0", "B1@v0#0"));
  EXPECT_EQ(message.policy(), "flush");
}

TEST(ScheduleCodec, RefusesBadPrograms) {
  struct Case {
    std::function<void(v1::StageProgram*)> spoil;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {[](v1::StageProgram* m) { m->set_stage(4); }, "StageProgram.stage: found 4"},
           {[](v1::StageProgram* m) { m->set_replica(2); }, "StageProgram.replica: found 2"},
           {[](v1::StageProgram* m) { m->set_policy("magic"); }, "StageProgram.policy"},
           {[](v1::StageProgram* m) { m->mutable_needs(0)->set_versions(0); },
            "StageProgram.needs[0]: StageNeeds.versions"},
           {[](v1::StageProgram* m) { m->mutable_needs(1)->set_slots(1'000'001); },
            "StageProgram.needs[1]: StageNeeds.slots"},
           {[](v1::StageProgram* m) { m->mutable_shape()->clear_replicas(); },
            "ScheduleShape.replicas"},
           {[](v1::StageProgram* m) { m->mutable_shape()->set_replicas(0, 0); },
            "ScheduleShape.replicas: found 0"},
           {[](v1::StageProgram* m) { m->mutable_shape()->add_warmup(1); }, "ScheduleShape.warmup"},
           {[](v1::StageProgram* m) { m->mutable_shape()->set_device_of(3, 5); },
            "ScheduleShape: device_of: stage 3 is on device 5"},
           {[](v1::StageProgram* m) { m->mutable_shape()->mutable_edges(0)->set_to(9); },
            "ScheduleShape: edges: 0 to 9"},
           {[](v1::StageProgram* m) {
              m->mutable_shape()->set_epochs(int64_t{1} << 40);
              m->mutable_shape()->set_minibatches_per_epoch(int64_t{1} << 40);
            },
            "more microbatches than can be counted"},
           {[](v1::StageProgram* m) { m->mutable_blocks(1)->set_repeat(-1); },
            "StageProgram.blocks[1]: ProgramBlock.repeat: found -1"},
           {[](v1::StageProgram* m) { m->mutable_blocks(1)->set_repeat(int64_t{1} << 52); },
            "ProgramBlock.update_stride"},
           {[](v1::StageProgram* m) { m->mutable_blocks(1)->set_body(2, "X9"); },
            "StageProgram.blocks[1]: ProgramBlock.body[2]"},
           {[](v1::StageProgram* m) { m->mutable_blocks(1)->set_body(2, ""); },
            "ProgramBlock.body[2]"},
           {[](v1::StageProgram* m) { m->mutable_blocks(0)->set_body(0, std::string(1000, 'F')); },
            "ProgramBlock.body[0].text: found 1000 bytes"},
       }) {
    v1::StageProgram message = ToProto(FullProgram());
    c.spoil(&message);
    EXPECT_THAT(FromProto(message),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace pipedream
