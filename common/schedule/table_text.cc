// The text form of a table (schedule_table.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/schedule_table.h"

namespace pipedream {
namespace {

struct Word {
  std::string_view text;
  size_t column = 0;  // from 1
};

// Splits at spaces; takes the next word off `line`. Columns count from the line's beginning.
std::optional<Word> NextWord(std::string_view line, size_t& at) {
  while (at < line.size() && line[at] == ' ') ++at;
  if (at == line.size()) return std::nullopt;
  size_t begin = at;
  while (at < line.size() && line[at] != ' ') ++at;
  return Word{line.substr(begin, at - begin), begin + 1};
}

template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool ParseList(std::string_view text, std::vector<int>* values) {
  values->clear();
  while (true) {
    size_t comma = text.find(',');
    int value = 0;
    if (!ParseNumber(text.substr(0, comma), &value)) return false;
    values->push_back(value);
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool ParseField(std::string_view key, std::string_view value, ScheduleTable& table) {
  ScheduleShape& shape = table.shape;
  if (key == "policy") {
    table.policy = value == "flush" ? WeightPolicy::kFlush : WeightPolicy::kStash;
    return value == "flush" || value == "stash";
  }
  if (key == "replicas") return ParseList(value, &shape.replicas);
  if (key == "minibatches_per_epoch") return ParseNumber(value, &shape.minibatches_per_epoch);
  if (key == "epochs") return ParseNumber(value, &shape.epochs);
  if (key == "microbatches") return ParseNumber(value, &shape.microbatches_per_minibatch);
  if (key == "evaluation") return ParseNumber(value, &shape.evaluation_microbatches);
  if (key == "warmup") return value == "rule" || ParseList(value, &shape.warmup);
  if (key == "norm") {
    shape.global_norm = value == "yes";
    return value == "yes" || value == "no";
  }
  return false;
}

class TableParser {
 public:
  explicit TableParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<ScheduleTable> Parse() {
    PD_RETURN_IF_ERROR(ParseHeader());
    for (int s = 0; s < table_.shape.stages(); ++s) {
      for (int q = 0; q < table_.shape.replicas[s]; ++q) PD_RETURN_IF_ERROR(ParseProgram(s, q));
    }
    if (NextLine()) return Fault(1, "expected the end: the header declares no more workers");
    return std::move(table_);
  }

 private:
  // Sets line_ to the next line that is not blank; false at the end.
  bool NextLine() {
    while (!rest_.empty()) {
      size_t end = rest_.find('\n');
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      if (line_.ends_with('\r')) line_.remove_suffix(1);
      ++number_;
      if (line_.find_first_not_of(' ') != std::string_view::npos) return true;
    }
    line_ = {};
    return false;
  }

  absl::Status Fault(size_t column, std::string_view what) const {
    return InvalidArgument("schedule table, line {} column {}: {}", number_, column, what);
  }

  absl::Status ParseHeader() {
    size_t at = 0;
    if (!NextLine()) return Fault(1, "expected 'schedule NAME key=value ...', found nothing");
    std::optional<Word> word = NextWord(line_, at);
    if (word->text != "schedule") return Fault(word->column, "expected 'schedule NAME key=value'");
    word = NextWord(line_, at);
    if (!word) return Fault(line_.size() + 1, "expected the schedule's name");
    table_.name = std::string(word->text);
    while ((word = NextWord(line_, at))) {
      size_t equals = word->text.find('=');
      if (equals == std::string_view::npos ||
          !ParseField(word->text.substr(0, equals), word->text.substr(equals + 1), table_)) {
        return Fault(word->column, fmt::format("'{}' is not a header field", word->text));
      }
    }
    if (absl::Status status = Validate(table_.shape); !status.ok()) {
      return Fault(1, std::string(status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status ParseProgram(int stage, int replica) {
    size_t at = 0;
    std::string label = fmt::format("s{}.r{}:", stage, replica);
    if (!NextLine()) return Fault(1, fmt::format("expected the line of '{}'", label));
    std::optional<Word> word = NextWord(line_, at);
    if (word->text != label) return Fault(word->column, fmt::format("expected '{}'", label));
    std::vector<Instruction> program;
    while ((word = NextWord(line_, at))) {
      absl::StatusOr<Instruction> instruction = ParseInstruction(word->text);
      if (!instruction.ok()) {
        return Fault(word->column, std::string(instruction.status().message()));
      }
      program.push_back(*instruction);
    }
    table_.programs.push_back(std::move(program));
    return absl::OkStatus();
  }

  std::string_view rest_;
  std::string_view line_;
  int number_ = 0;
  ScheduleTable table_;
};

}  // namespace

std::string FormatTable(const ScheduleTable& table) {
  const ScheduleShape& shape = table.shape;
  std::string text = fmt::format(
      "schedule {} policy={} replicas={} minibatches_per_epoch={} epochs={} microbatches={} "
      "evaluation={} warmup={} norm={}\n",
      table.name, table.policy == WeightPolicy::kFlush ? "flush" : "stash",
      fmt::join(shape.replicas, ","), shape.minibatches_per_epoch, shape.epochs,
      shape.microbatches_per_minibatch, shape.evaluation_microbatches,
      shape.warmup.empty() ? "rule" : fmt::format("{}", fmt::join(shape.warmup, ",")),
      shape.global_norm ? "yes" : "no");
  for (int s = 0; s < shape.stages(); ++s) {
    for (int q = 0; q < shape.replicas[s]; ++q) {
      fmt::format_to(std::back_inserter(text), "s{}.r{}:", s, q);
      for (const Instruction& i : table.programs[table.WorkerIndex(StageId(s), ReplicaId(q))]) {
        text += ' ';
        text += Format(i);
      }
      text += '\n';
    }
  }
  return text;
}

absl::StatusOr<ScheduleTable> ParseTable(std::string_view text) {
  return TableParser(text).Parse();
}

}  // namespace pipedream
