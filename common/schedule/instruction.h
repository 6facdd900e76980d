// One step of one stage replica. A schedule is a table of these; everything else about schedules
// (transfers, versions, slots, loops) is derived by pure passes.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/strong_int.h"

namespace pipedream {

enum class Op : uint8_t {
  kForward,            // F: run the forward program on a training microbatch
  kBackward,           // B: input-gradient and weight-gradient programs
  kBackwardInput,      // I: input-gradient program only; a W follows later
  kBackwardWeight,     // W: the weight-gradient program of an earlier I
  kEvaluate,           // E: forward in inference form on an evaluation microbatch
  kStep,               // U: apply the optimizer to the summed gradients, publish `version`
  kSendActivation,     // SA
  kReceiveActivation,  // RA
  kSendGradient,       // SG
  kReceiveGradient,    // RG
  kSendEvaluation,     // SE
  kReceiveEvaluation,  // RE
  kReduce,             // R: sum gradients over the stage's replicas
  kTie,                // T: begin to sum the gradients of parameters that several stages hold
  kNorm,               // N: begin to sum the squared norms of all stages' gradients
  kValidate,           // V: learn whether an update made before its norm was known holds
  kPin,                // P: keep `version` alive, though newer ones come, until its Unpin
  kUnpin,              // Q: let it go; follows the last Evaluate that reads it
};

struct Peer {
  StageId stage;
  ReplicaId replica;
  auto operator<=>(const Peer&) const = default;
};

inline constexpr int32_t kNoSlot = -1;
inline constexpr WeightVersion kNoVersion{-1};

struct Instruction {
  Op op = Op::kForward;
  // The microbatch for all but U, R, T and V; there: the update's number (0, 1, ...); of
  // Norm the norm's number (weight_policy.h). Evaluation microbatches have numbers of their own,
  // running over all evaluations. 0 for P, Q.
  MicrobatchId microbatch = {};
  // Weights that F, B, I, W, E read and P, Q name; for U the version it makes. kNoVersion
  // elsewhere.
  WeightVersion version = kNoVersion;
  Peer peer = {};          // of sends and receives
  int32_t slot = kNoSlot;  // activation slot of F, B, I, W
  int32_t chunk = 0;       // which of the worker's stages, in ascending order; 0 for T, N and V
  auto operator<=>(const Instruction&) const = default;
};

// "F3@v1#0", "B0@v0#0", "E5@v30", "U1->v2", "SA3>1.0", "RG3<1.0", "SE5>1.0", "R1", "N1", "P@v30";
// with the chunk behind the number where it is not 0: "F3c1@v1#0", "Pc1@v30". The "@v" and "#slot"
// parts are absent where not assigned. Format and parse are inverses for instructions whose unused
// fields hold their defaults.
std::string Format(const Instruction& instruction);
// kInvalidArgument says what was expected after which part of `text`.
absl::StatusOr<Instruction> ParseInstruction(std::string_view text);

// "F", "SA": what Format begins with.
std::string_view Mnemonic(Op op);
// SA, SG, SE and RA, RG, RE.
bool IsSend(Op op);
bool IsReceive(Op op);
// F, B, I, W, E: runs a program of the stage.
bool IsCompute(Op op);

// R, T, N.
bool IsCollective(Op op);
// T, N, V: of the whole worker, not of one of its stages.
bool IsOfWorker(Op op);

// Which running number `Instruction::microbatch` is, by operation.
enum class Counter : uint8_t { kTraining, kEvaluation, kUpdate, kNone };
Counter CounterOf(Op op);

}  // namespace pipedream
