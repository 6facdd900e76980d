#include "common/schedule/pytorch_csv.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr std::string_view kExpected = "an action like 0F3, 1B2, 1I2 or 1W2, or nothing";

struct ComputeAction {
  Op op;
  std::string_view letter;
};
constexpr std::array kComputeActions = {
    ComputeAction{Op::kForward, "F"}, ComputeAction{Op::kBackward, "B"},
    ComputeAction{Op::kBackwardInput, "I"}, ComputeAction{Op::kBackwardWeight, "W"}};
constexpr std::array<std::string_view, 7> kOtherActions = {
    "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Without the quotes that spreadsheet programs may add.
std::string_view Unquoted(std::string_view cell) {
  cell = Trimmed(cell);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
    cell = Trimmed(cell.substr(1, cell.size() - 2));
  }
  return cell;
}

bool EatNumber(std::string_view& text, int32_t* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc() || *value < 0) return false;
  text.remove_prefix(end - text.data());
  return true;
}

std::string_view NextPart(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

class CsvParser {
 public:
  absl::StatusOr<ScheduleTable> Parse(std::string_view text) {
    while (!text.empty()) {
      const std::string_view line = Trimmed(NextPart(text, '\n'));
      ++row_;
      if (line.empty()) continue;
      PD_RETURN_IF_ERROR(ParseRow(line));
    }
    if (rows_.empty()) return InvalidArgument("schedule CSV: no row, expected one per device");
    return Assemble();
  }

 private:
  struct Action {
    int32_t stage;
    Instruction instruction;
  };

  template <typename... Args>
  absl::Status Fault(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("schedule CSV, row {} cell {}: {}", row_, cell_,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  absl::Status ParseRow(std::string_view line) {
    rows_.emplace_back();
    for (cell_ = 1; !line.empty(); ++cell_) {
      const std::string_view cell = Unquoted(NextPart(line, ','));
      if (!cell.empty()) PD_RETURN_IF_ERROR(ParseCell(cell));
    }
    if (!rows_.back().empty()) return absl::OkStatus();
    return InvalidArgument(
        "schedule CSV, row {}: no action that computes, expected some of F, B, "
        "I and W on every device",
        row_);
  }

  absl::Status ParseCell(std::string_view cell) {
    if (cell.starts_with('(') || cell.find("OVERLAP") != std::string_view::npos) {
      return Fault(
          "'{}' overlaps actions, which this project does not: write them into cells of "
          "their own, in the order in which they are to run",
          cell);
    }
    Action action{};
    std::string_view rest = cell;
    if (!EatNumber(rest, &action.stage)) return Fault("'{}', expected {}", cell, kExpected);
    for (std::string_view name : kOtherActions) {
      std::string_view number = rest;
      if (!number.starts_with(name)) continue;
      number.remove_prefix(name.size());
      int32_t microbatch = 0;
      if (number.empty() || (EatNumber(number, &microbatch) && number.empty())) {
        return absl::OkStatus();
      }
    }
    for (const ComputeAction& known : kComputeActions) {
      if (!rest.starts_with(known.letter)) continue;
      rest.remove_prefix(known.letter.size());
      int32_t microbatch = 0;
      if (!EatNumber(rest, &microbatch) || !rest.empty()) break;
      action.instruction = {.op = known.op, .microbatch = MicrobatchId(microbatch)};
      return Add(cell, action);
    }
    return Fault("'{}', expected {}", cell, kExpected);
  }

  absl::Status Add(std::string_view cell, const Action& action) {
    const int row = static_cast<int>(rows_.size()) - 1;
    auto [place, is_new] = device_of_.try_emplace(action.stage, row);
    if (place->second != row) {
      return Fault("'{}', but stage {} is on device {}: a stage's actions are all in one row", cell,
                   action.stage, place->second);
    }
    const int64_t microbatch = action.instruction.microbatch.value();
    if (!seen_.emplace(action.instruction.op, action.stage, microbatch).second) {
      return Fault("'{}' comes for the second time", cell);
    }
    microbatches_ = std::max(microbatches_, microbatch + 1);
    rows_.back().push_back(action);
    return absl::OkStatus();
  }

  absl::StatusOr<ScheduleTable> Assemble() const {
    ScheduleTable table{.name = "csv", .policy = WeightPolicy::kFlush, .shape = {}, .programs = {}};
    ScheduleShape& shape = table.shape;
    for (const auto& [stage, device] : device_of_) {
      if (stage != shape.stages()) {
        return InvalidArgument("schedule CSV: stage {} is missing, the last one is {}",
                               shape.stages(), device_of_.rbegin()->first);
      }
      shape.replicas.push_back(1);
      shape.device_of.push_back(device);
    }
    shape.microbatches_per_minibatch =
        static_cast<int>(std::min<int64_t>(microbatches_, std::numeric_limits<int>::max()));
    // The plain order needs no saying.
    bool plain = true;
    for (int s = 0; s < shape.stages(); ++s) plain = plain && shape.device_of[s] == s;
    if (plain) shape.device_of.clear();
    if (absl::Status status = Validate(shape); !status.ok()) {
      return Annotate(status, "schedule CSV");
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      std::vector<Instruction>& program = table.programs.emplace_back();
      for (const Action& action : rows_[row]) {
        program.push_back(action.instruction);
        program.back().chunk = ChunkOf(shape, StageId(action.stage));
      }
      const auto chunks = std::ssize(StagesOn(shape, static_cast<int>(row)));
      for (int32_t chunk = 0; chunk < chunks; ++chunk) {
        program.push_back({.op = Op::kStep, .chunk = chunk});
      }
    }
    return table;
  }

  int row_ = 0, cell_ = 0;  // from 1
  std::vector<std::vector<Action>> rows_;
  std::map<int32_t, int> device_of_;
  absl::flat_hash_set<std::tuple<Op, int32_t, int64_t>> seen_;
  int64_t microbatches_ = 0;
};

}  // namespace

absl::StatusOr<ScheduleTable> ParsePyTorchCsv(std::string_view text) {
  return CsvParser().Parse(text);
}

absl::StatusOr<std::string> FormatPyTorchCsv(const ScheduleTable& table) {
  const ScheduleShape& shape = table.shape;
  if (!IsSynchronous(table.policy)) {
    return InvalidArgument("policy: {}, but the CSV notation is for synchronous schedules (flush)",
                           PolicyName(table.policy));
  }
  if (std::any_of(shape.replicas.begin(), shape.replicas.end(), [](int r) { return r > 1; })) {
    return InvalidArgument("replicas: {}, but the CSV notation has one row per device",
                           fmt::join(shape.replicas, ","));
  }
  if (shape.minibatches() > 1) {
    return InvalidArgument("minibatches: {}, but the CSV notation has one", shape.minibatches());
  }
  const std::vector<Peer> workers = WorkersOf(shape);
  std::string text;
  for (size_t w = 0; w < workers.size() && w < table.programs.size(); ++w) {
    const std::vector<StageId> stages = StagesOn(shape, DeviceOf(shape, workers[w].stage));
    std::string_view separator = "";
    for (const Instruction& instruction : table.programs[w]) {
      if (!IsCompute(instruction.op) || instruction.op == Op::kEvaluate) continue;
      fmt::format_to(std::back_inserter(text), "{}{}{}{}", separator, stages[instruction.chunk],
                     Mnemonic(instruction.op), instruction.microbatch);
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

}  // namespace pipedream
