#include "common/schedule/instruction.h"

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

TEST(Instruction, TextOfEveryOperation) {
  Peer peer{StageId(1), ReplicaId(0)};
  auto mb = [](int64_t i) { return MicrobatchId(i); };
  auto v = [](int64_t i) { return WeightVersion(i); };
  std::vector<std::pair<Instruction, std::string>> cases = {
      {{.op = Op::kForward, .microbatch = mb(3), .version = v(1), .slot = 0}, "F3@v1#0"},
      {{.op = Op::kForward, .microbatch = mb(3)}, "F3"},
      {{.op = Op::kBackward, .microbatch = mb(0), .version = v(0), .slot = 12}, "B0@v0#12"},
      {{.op = Op::kBackwardInput, .microbatch = mb(7), .version = v(2)}, "I7@v2"},
      {{.op = Op::kBackwardWeight, .microbatch = mb(7), .slot = 1}, "W7#1"},
      {{.op = Op::kEvaluate, .microbatch = mb(5), .version = v(30)}, "E5@v30"},
      {{.op = Op::kStep, .microbatch = mb(1), .version = v(2)}, "U1->v2"},
      {{.op = Op::kStep, .microbatch = mb(1)}, "U1"},
      {{.op = Op::kSendActivation, .microbatch = mb(3), .peer = peer}, "SA3>1.0"},
      {{.op = Op::kReceiveActivation, .microbatch = mb(3), .peer = peer}, "RA3<1.0"},
      {{.op = Op::kSendGradient, .microbatch = mb(3), .peer = peer}, "SG3>1.0"},
      {{.op = Op::kReceiveGradient, .microbatch = mb(3), .peer = peer}, "RG3<1.0"},
      {{.op = Op::kSendEvaluation, .microbatch = mb(5), .peer = peer}, "SE5>1.0"},
      {{.op = Op::kReceiveEvaluation, .microbatch = mb(5), .peer = peer}, "RE5<1.0"},
      {{.op = Op::kReduce, .microbatch = mb(1)}, "R1"},
      {{.op = Op::kNorm, .microbatch = mb(1)}, "N1"},
      {{.op = Op::kPin, .version = v(30)}, "P@v30"},
      {{.op = Op::kUnpin, .version = v(30)}, "Q@v30"},
  };
  for (const auto& [instruction, text] : cases) {
    EXPECT_EQ(Format(instruction), text);
    ASSERT_OK_AND_ASSIGN(Instruction parsed, ParseInstruction(text));
    EXPECT_EQ(parsed, instruction) << text;
  }
}

TEST(Instruction, RefusesOtherTextAndSaysWhere) {
  auto expect = [](std::string_view text, std::string_view message) {
    EXPECT_THAT(ParseInstruction(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))))
        << text;
  };
  expect("", "character 1: expected one of F B");
  expect("X3", "character 1");
  expect("F", "character 2: expected a number");
  expect("F-1", "character 2: expected a number");
  expect("F99999999999999999999", "expected a number");
  expect("F3@1", "character 3: expected the end");
  expect("F3@v", "character 5: expected a version");
  expect("F3#", "expected a slot");
  expect("SA3", "expected '>' and the peer");
  expect("RA3>1.0", "expected '<' and the peer");
  expect("SA3>1", "expected '.'");
  expect("U1->v2x", "character 7: expected the end");
  expect("P3", "character 2: expected '@v'");
  expect("E5@v3#1", "expected the end");
}

}  // namespace
}  // namespace pipedream
