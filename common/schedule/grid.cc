#include "common/schedule/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace pipedream {
namespace {

// Of the shortest work, if so many show all times exactly.
constexpr int kMostColumns = 6;
// Of the longest, if they do not.
constexpr double kWidest = 12;

char CellOf(const Instruction& instruction) {
  const int64_t i = instruction.microbatch.value();
  switch (instruction.op) {
    case Op::kForward:
      return static_cast<char>('0' + i % 10);
    case Op::kEvaluate:
      return '*';
    case Op::kBackwardWeight:
      return static_cast<char>('A' + i % 26);
    case Op::kStep:
      return '=';
    case Op::kReduce:
      return '~';
    default:
      return static_cast<char>('a' + i % 26);
  }
}

// The transfer that brings what `op` needs; kStep: none does.
Op SendFor(Op op) {
  switch (op) {
    case Op::kForward:
      return Op::kSendActivation;
    case Op::kBackward:
    case Op::kBackwardInput:
      return Op::kSendGradient;
    case Op::kEvaluate:
      return Op::kSendEvaluation;
    default:
      return Op::kStep;
  }
}

class Picture {
 public:
  Picture(const ScheduleTable& table, const Simulation& played)
      : table_(table), played_(played), scale_(ColumnsPerUnit()) {
    length_ = ColumnOf(played.makespan_s);
    for (const WorkerUse& use : played.workers) {
      first_row_.push_back(rows_.size());
      for (const StageUse& stage : use.stages) {
        rows_.push_back({.label = LabelOf(use, stage.stage), .cells = std::string(length_, '.')});
      }
    }
    size_t widest = 0;
    for (const Row& row : rows_) widest = std::max(widest, row.label.size());
    for (Row& row : rows_) row.label.resize(widest, ' ');
    DrawLinks();
    DrawWork();
  }

  struct Row {
    std::string label;
    std::string cells;
  };
  const std::vector<Row>& rows() const { return rows_; }
  long length() const { return length_; }

  // "0         10        20" over the columns from `begin` on.
  std::string Ruler(long begin, long end) const {
    constexpr double kLeastColumns = 8;
    double step = std::pow(10, std::floor(std::log10(kLeastColumns / scale_)));
    for (double factor : {1.0, 2.0, 5.0, 10.0}) {
      if (factor * step * scale_ < kLeastColumns) continue;
      step *= factor;
      break;
    }
    std::string ruler;
    for (double mark = std::ceil(static_cast<double>(begin) / scale_ / step - 1e-9) + 0.0; true;
         ++mark) {
      const long at = ColumnOf(mark * step);
      const std::string text = fmt::format("{:g}", mark * step);
      if (at + std::ssize(text) > end) return ruler;
      ruler.resize(std::max<size_t>(ruler.size(), std::max(at - begin, 0L)), ' ');
      ruler += text;
    }
  }

 private:
  double ColumnsPerUnit() const {
    double shortest = played_.makespan_s, longest = 0;
    for (const Span& span : played_.spans) {
      if (IsSend(span.instruction.op)) continue;
      shortest = std::min(shortest, span.end_s - span.start_s);
      longest = std::max(longest, span.end_s - span.start_s);
    }
    if (longest == 0) return 1;
    for (int columns = 1; columns <= kMostColumns; ++columns) {
      const double scale = columns / shortest;
      auto exact = [&](double time) {
        return std::abs(time * scale - std::round(time * scale)) < 1e-6;
      };
      if (longest * scale <= 2 * kWidest &&
          std::all_of(played_.spans.begin(), played_.spans.end(),
                      [&](const Span& span) { return exact(span.start_s) && exact(span.end_s); })) {
        return scale;
      }
    }
    return std::min(4 / shortest, kWidest / longest);
  }

  long ColumnOf(double time) const { return std::lround(time * scale_); }

  std::string LabelOf(const WorkerUse& use, StageId stage) const {
    const std::vector<int>& replicas = table_.shape.replicas;
    const bool replicated =
        std::any_of(replicas.begin(), replicas.end(), [](int r) { return r > 1; });
    std::string replica = replicated ? fmt::format(".{}", use.worker.replica) : "";
    if (table_.shape.devices() == table_.shape.stages())
      return fmt::format("s{}{}", stage, replica);
    std::string device = fmt::format("d{}{}", DeviceOf(table_.shape, stage), replica);
    if (stage != use.stages[0].stage) device.assign(device.size(), ' ');
    return fmt::format("{} s{}", device, stage);
  }

  std::string& CellsOf(const Span& span) {
    return rows_[first_row_[WorkerIndex(table_.shape, span.worker)] + span.instruction.chunk].cells;
  }

  StageId StageOf(const Span& span) const {
    return played_.workers[WorkerIndex(table_.shape, span.worker)]
        .stages[span.instruction.chunk]
        .stage;
  }

  // What is under way to a stage replica: by kind and microbatch, from when to when.
  using Flights = std::multimap<std::tuple<Peer, Op, MicrobatchId>, std::pair<double, double>>;

  // '-' where a worker's next work waits for a message that is on its way.
  void DrawLinks() {
    Flights flights;
    for (const Span& span : played_.spans) {
      if (!IsSend(span.instruction.op)) continue;
      flights.emplace(
          std::tuple(span.instruction.peer, span.instruction.op, span.instruction.microbatch),
          std::pair(span.start_s, span.end_s));
    }
    std::vector<double> free_s(played_.workers.size(), 0);
    for (const Span& span : played_.spans) {
      if (IsSend(span.instruction.op)) continue;
      double& free = free_s[WorkerIndex(table_.shape, span.worker)];
      const Peer at{StageOf(span), span.worker.replica};
      auto [first, last] = flights.equal_range(
          std::tuple(at, SendFor(span.instruction.op), span.instruction.microbatch));
      for (; first != last; ++first) {
        const long begin = ColumnOf(std::max(free, first->second.first));
        const long end = ColumnOf(std::min(span.start_s, first->second.second));
        if (begin < end) Fill(span, begin, end, '-', '-');
      }
      free = span.end_s;
    }
  }

  void DrawWork() {
    for (const Span& span : played_.spans) {
      if (IsSend(span.instruction.op)) continue;
      Fill(span, ColumnOf(span.start_s), ColumnOf(span.end_s), CellOf(span.instruction), ' ');
    }
  }

  // In the row of the span's stage, and in those of the worker's other stages.
  void Fill(const Span& span, long begin, long end, char own, char others) {
    const size_t worker = WorkerIndex(table_.shape, span.worker);
    for (size_t k = 0; k < played_.workers[worker].stages.size(); ++k) {
      std::string& cells = rows_[first_row_[worker] + k].cells;
      const bool is_own = &cells == &CellsOf(span);
      std::fill(cells.begin() + begin, cells.begin() + end, is_own ? own : others);
    }
  }

  const ScheduleTable& table_;
  const Simulation& played_;
  double scale_;  // columns per unit of time
  long length_ = 0;
  std::vector<Row> rows_;
  std::vector<size_t> first_row_;  // by worker
};

}  // namespace

absl::StatusOr<std::string> DrawGrid(const ScheduleTable& table) {
  SimulateOptions options;
  options.record_spans = true;
  options.stages.assign(table.shape.stages(), {.forward_s = 1,
                                               .backward_s = 2,
                                               .backward_input_s = 1,
                                               .step_s = 0,
                                               .reduce_s = 0,
                                               .norm_s = 0,
                                               .evaluate_s = 1});
  PD_ASSIGN_OR_RETURN(Simulation played, Simulate(table, options));
  const Picture picture(table, played);
  std::string text;
  auto row = picture.rows().begin();
  for (const WorkerUse& use : played.workers) {
    for (const StageUse& stage : use.stages) {
      fmt::format_to(std::back_inserter(text), "{} {}  weight versions alive: {}\n", row->label,
                     row->cells, stage.peak_versions);
      ++row;
    }
  }
  return text;
}

std::string DrawGrid(const ScheduleTable& lowered, const Simulation& played, int width) {
  const Picture picture(lowered, played);
  if (picture.rows().empty() || picture.length() == 0) return "";
  const std::string margin(picture.rows()[0].label.size() + 1, ' ');
  long piece = picture.length();
  if (width > 0) piece = std::max<long>(width - static_cast<long>(margin.size()), 20);
  std::string text;
  for (long begin = 0; begin < picture.length(); begin += piece) {
    const long end = std::min(begin + piece, picture.length());
    if (begin > 0) text += '\n';
    text += margin + picture.Ruler(begin, end) + '\n';
    for (const Picture::Row& row : picture.rows()) {
      std::string line = row.label + ' ' + row.cells.substr(begin, end - begin);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
  }
  return text;
}

}  // namespace pipedream
