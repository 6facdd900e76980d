#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/codec/plan_codec.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

// Every field of a node, a tensor and the profile itself has a value of its own.
Profile Full() {
  NodeProfile node;
  node.name = "conv";
  node.op = "Conv";
  node.forward_s = 1;
  node.input_gradient_s = 2;
  node.weight_gradient_s = 3;
  node.optimizer_s = 4;
  node.parameter_bytes = 5;
  node.state_bytes = 6;
  node.output_bytes = 7;
  node.saved_bytes = 8;
  node.workspace_bytes = 9;
  node.constant_bytes = 10;
  Profile profile;
  profile.model_hash = "hash";
  profile.device_kind = "cpu";
  profile.microbatch_size = 11;
  profile.optimizer_state_tensors = 1;
  profile.step_s = 12;
  profile.device_speed = 13;
  profile.nodes = {node, node, node};
  profile.tensors = {{{0}, {1, 2}, 14, false, {0, 2}, 15}, {{0}, {1, 2}, 14, true, {}, 0}};
  profile.ties = {{0, 2}};
  return profile;
}

TEST(ProfileCodec, RoundTrips) {
  ASSERT_OK_AND_ASSIGN(const Profile back, FromProto(ToProto(Full())));
  EXPECT_EQ(back, Full());
}

TEST(ProfileCodec, RefusesWhatNoProfileSays) {
  v1::Profile message = ToProto(Full());
  message.mutable_tensors(0)->set_kept_by(1, 3);
  EXPECT_THAT(FromProto(message), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("Profile.tensors[0].kept_by")));
  message = ToProto(Full());
  message.mutable_tensors(0)->set_kept_bytes(-1);
  EXPECT_THAT(FromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kept_bytes")));
  message = ToProto(Full());
  message.mutable_nodes(1)->set_constant_bytes(-1);
  EXPECT_THAT(FromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("constant_bytes")));
  message = ToProto(Full());
  message.set_device_speed(-1);
  EXPECT_THAT(FromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_speed")));
}

}  // namespace
}  // namespace pipedream
