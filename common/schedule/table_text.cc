// The text form of a table (schedule_table.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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

constexpr std::array<std::pair<WeightPolicy, std::string_view>, 6> kPolicyNames = {
    {{WeightPolicy::kFlush, "flush"},
     {WeightPolicy::kStash, "stash"},
     {WeightPolicy::kVerticalSync, "vsync"},
     {WeightPolicy::kDoubleBuffer, "2bw"},
     {WeightPolicy::kSpeculative, "speculative"},
     {WeightPolicy::kSingle, "single"}}};

bool ParsePolicy(std::string_view text, WeightPolicy* policy) {
  for (const auto& [known, name] : kPolicyNames) {
    if (name != text) continue;
    *policy = known;
    return true;
  }
  return false;
}

// "0>1,0>3!": from, to, and "!" where no gradient comes back.
bool ParseEdges(std::string_view text, std::vector<ScheduleEdge>* edges) {
  edges->clear();
  while (true) {
    size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    ScheduleEdge edge;
    edge.gradient = !part.ends_with('!');
    if (!edge.gradient) part.remove_suffix(1);
    size_t arrow = part.find('>');
    if (arrow == std::string_view::npos || !ParseNumber(part.substr(0, arrow), &edge.from) ||
        !ParseNumber(part.substr(arrow + 1), &edge.to)) {
      return false;
    }
    edges->push_back(edge);
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

std::string FormatEdges(const std::vector<ScheduleEdge>& edges) {
  std::string text;
  for (const ScheduleEdge& edge : edges) {
    fmt::format_to(std::back_inserter(text), "{}{}>{}{}", text.empty() ? "" : ",", edge.from,
                   edge.to, edge.gradient ? "" : "!");
  }
  return text;
}

bool ParseField(std::string_view key, std::string_view value, ScheduleTable& table) {
  ScheduleShape& shape = table.shape;
  if (key == "policy") return ParsePolicy(value, &table.policy);
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
  if (key == "devices") return ParseList(value, &shape.device_of);
  if (key == "edges") return ParseEdges(value, &shape.edges);
  if (key == "tied") return ParseList(value, &shape.tied_stages);
  return false;
}

class TableParser {
 public:
  explicit TableParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<ScheduleTable> Parse() {
    PD_RETURN_IF_ERROR(ParseHeader());
    for (const Peer& worker : WorkersOf(table_.shape)) PD_RETURN_IF_ERROR(ParseProgram(worker));
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

  absl::Status ParseProgram(const Peer& worker) {
    size_t at = 0;
    std::string label = fmt::format("s{}.r{}:", worker.stage, worker.replica);
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

std::string_view PolicyName(WeightPolicy policy) {
  return kPolicyNames.at(static_cast<size_t>(policy)).second;
}

std::string FormatTable(const ScheduleTable& table) {
  const ScheduleShape& shape = table.shape;
  std::string text = fmt::format(
      "schedule {} policy={} replicas={} minibatches_per_epoch={} epochs={} microbatches={} "
      "evaluation={} warmup={} norm={}",
      table.name, PolicyName(table.policy), fmt::join(shape.replicas, ","),
      shape.minibatches_per_epoch, shape.epochs, shape.microbatches_per_minibatch,
      shape.evaluation_microbatches,
      shape.warmup.empty() ? "rule" : fmt::format("{}", fmt::join(shape.warmup, ",")),
      shape.global_norm ? "yes" : "no");
  auto out = std::back_inserter(text);
  if (!shape.device_of.empty()) fmt::format_to(out, " devices={}", fmt::join(shape.device_of, ","));
  if (!shape.edges.empty()) fmt::format_to(out, " edges={}", FormatEdges(shape.edges));
  if (!shape.tied_stages.empty())
    fmt::format_to(out, " tied={}", fmt::join(shape.tied_stages, ","));
  text += '\n';
  std::vector<Peer> workers = WorkersOf(shape);
  for (size_t w = 0; w < std::min(workers.size(), table.programs.size()); ++w) {
    fmt::format_to(out, "s{}.r{}:", workers[w].stage, workers[w].replica);
    for (const Instruction& i : table.programs[w]) {
      text += ' ';
      text += Format(i);
    }
    text += '\n';
  }
  return text;
}

absl::StatusOr<ScheduleTable> ParseTable(std::string_view text) {
  return TableParser(text).Parse();
}

}  // namespace pipedream
