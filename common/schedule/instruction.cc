#include "common/schedule/instruction.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "common/base/status.h"

namespace pipedream {
namespace {

struct OpName {
  Op op;
  std::string_view name;
};

// In the order of the enumerators. Two-letter names are tried first when parsing.
constexpr std::array kOpNames = {
    OpName{Op::kForward, "F"},
    OpName{Op::kBackward, "B"},
    OpName{Op::kBackwardInput, "I"},
    OpName{Op::kBackwardWeight, "W"},
    OpName{Op::kEvaluate, "E"},
    OpName{Op::kStep, "U"},
    OpName{Op::kSendActivation, "SA"},
    OpName{Op::kReceiveActivation, "RA"},
    OpName{Op::kSendGradient, "SG"},
    OpName{Op::kReceiveGradient, "RG"},
    OpName{Op::kSendEvaluation, "SE"},
    OpName{Op::kReceiveEvaluation, "RE"},
    OpName{Op::kReduce, "R"},
    OpName{Op::kTie, "T"},
    OpName{Op::kNorm, "N"},
    OpName{Op::kValidate, "V"},
    OpName{Op::kPin, "P"},
    OpName{Op::kUnpin, "Q"},
};

bool IsTransfer(Op op) { return IsSend(op) || IsReceive(op); }

// Eats a text from the left and remembers what it could not eat.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), rest_(text) {}
  bool done() const { return rest_.empty(); }
  bool Eat(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  template <typename T>
  bool EatNumber(T* value) {
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') return false;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
    if (error != std::errc()) return false;
    rest_.remove_prefix(end - rest_.data());
    return true;
  }
  absl::Status Expected(std::string_view what) const {
    return InvalidArgument("instruction '{}', character {}: expected {}", text_,
                           text_.size() - rest_.size() + 1, what);
  }

 private:
  std::string_view text_;
  std::string_view rest_;
};

std::optional<Op> EatOp(Scanner& scanner) {
  for (size_t length : {2, 1}) {
    for (const OpName& entry : kOpNames) {
      if (entry.name.size() == length && scanner.Eat(entry.name)) return entry.op;
    }
  }
  return std::nullopt;
}

absl::Status ParsePeer(Scanner& scanner, Instruction& result) {
  std::string_view arrow = IsSend(result.op) ? ">" : "<";
  int32_t stage = 0, replica = 0;
  if (!scanner.Eat(arrow)) return scanner.Expected(fmt::format("'{}' and the peer", arrow));
  if (!scanner.EatNumber(&stage)) return scanner.Expected("the peer's stage");
  if (!scanner.Eat(".")) return scanner.Expected("'.' and the peer's replica");
  if (!scanner.EatNumber(&replica)) return scanner.Expected("the peer's replica");
  result.peer = {StageId(stage), ReplicaId(replica)};
  return absl::OkStatus();
}

absl::Status ParseVersion(Scanner& scanner, Instruction& result) {
  if (IsCompute(result.op) || CounterOf(result.op) == Counter::kNone) {
    if (!scanner.Eat("@v")) {
      return IsCompute(result.op) ? absl::OkStatus() : scanner.Expected("'@v' and a version");
    }
  } else if (result.op != Op::kStep || !scanner.Eat("->v")) {
    return absl::OkStatus();
  }
  int64_t version = 0;
  if (!scanner.EatNumber(&version)) return scanner.Expected("a version number");
  result.version = WeightVersion(version);
  return absl::OkStatus();
}

}  // namespace

std::string_view Mnemonic(Op op) { return kOpNames.at(static_cast<size_t>(op)).name; }

bool IsSend(Op op) {
  return op == Op::kSendActivation || op == Op::kSendGradient || op == Op::kSendEvaluation;
}

bool IsReceive(Op op) {
  return op == Op::kReceiveActivation || op == Op::kReceiveGradient || op == Op::kReceiveEvaluation;
}

bool IsCompute(Op op) { return op <= Op::kEvaluate; }

bool IsCollective(Op op) { return op == Op::kReduce || op == Op::kTie || op == Op::kNorm; }

bool IsOfWorker(Op op) { return op == Op::kTie || op == Op::kNorm || op == Op::kValidate; }

Counter CounterOf(Op op) {
  switch (op) {
    case Op::kForward:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
    case Op::kSendActivation:
    case Op::kReceiveActivation:
    case Op::kSendGradient:
    case Op::kReceiveGradient:
      return Counter::kTraining;
    case Op::kEvaluate:
    case Op::kSendEvaluation:
    case Op::kReceiveEvaluation:
      return Counter::kEvaluation;
    case Op::kStep:
    case Op::kReduce:
    case Op::kTie:
    case Op::kNorm:
    case Op::kValidate:
      return Counter::kUpdate;
    case Op::kPin:
    case Op::kUnpin:
      return Counter::kNone;
  }
  return Counter::kNone;
}

std::string Format(const Instruction& instruction) {
  std::string text(Mnemonic(instruction.op));
  auto out = std::back_inserter(text);
  if (CounterOf(instruction.op) != Counter::kNone)
    fmt::format_to(out, "{}", instruction.microbatch);
  if (instruction.chunk != 0) fmt::format_to(out, "c{}", instruction.chunk);
  if (IsTransfer(instruction.op)) {
    fmt::format_to(out, "{}{}.{}", IsSend(instruction.op) ? '>' : '<', instruction.peer.stage,
                   instruction.peer.replica);
  }
  if (instruction.version != kNoVersion) {
    fmt::format_to(out, "{}{}", instruction.op == Op::kStep ? "->v" : "@v", instruction.version);
  }
  if (instruction.slot != kNoSlot) fmt::format_to(out, "#{}", instruction.slot);
  return text;
}

absl::StatusOr<Instruction> ParseInstruction(std::string_view text) {
  Scanner scanner(text);
  Instruction result;
  std::optional<Op> op = EatOp(scanner);
  if (!op) return scanner.Expected("one of F B I W E U SA RA SG RG SE RE R T N V P Q");
  result.op = *op;
  if (CounterOf(result.op) != Counter::kNone) {
    int64_t number = 0;
    if (!scanner.EatNumber(&number)) return scanner.Expected("a number");
    result.microbatch = MicrobatchId(number);
  }
  if (scanner.Eat("c") && !scanner.EatNumber(&result.chunk)) {
    return scanner.Expected("a chunk number");
  }
  if (IsTransfer(result.op)) PD_RETURN_IF_ERROR(ParsePeer(scanner, result));
  PD_RETURN_IF_ERROR(ParseVersion(scanner, result));
  if (IsCompute(result.op) && result.op != Op::kEvaluate && scanner.Eat("#")) {
    if (!scanner.EatNumber(&result.slot)) return scanner.Expected("a slot number");
  }
  if (!scanner.done()) return scanner.Expected("the end");
  return result;
}

}  // namespace pipedream
