#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>

#include "client/commands/commands.h"
#include "client/exit_codes.h"
#include "client/render/schedule_text.h"
#include "client/render/yaml.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/schedule/grid.h"
#include "common/schedule/pytorch_csv.h"
#include "common/schedule/repeat_table.h"

namespace pipedream {
namespace {

constexpr int64_t kMaxTableBytes = int64_t{64} << 20;

// The document in the format for programs that was asked for.
void PrintMachine(const Terminal& terminal, const std::string& json) {
  *terminal.out << (terminal.format == OutputFormat::kJson ? json : JsonToYaml(json));
}

absl::Status RefuseNames(const Terminal& terminal, std::string_view command) {
  if (terminal.format != OutputFormat::kName) return absl::OkStatus();
  return WithReason(InvalidArgument("-o name is not for `pipedream schedule {}`", command),
                    kUsageReason);
}

absl::StatusOr<std::string> ReadTableFile(const CommandContext& context, const std::string& path) {
  if (path != "-") return ReadFile(path, kMaxTableBytes);
  return std::string(std::istreambuf_iterator<char>(*context.input), {});
}

// A picture of more is of no use to anybody.
constexpr int64_t kMaxCells = int64_t{1} << 20;

absl::Status CheckSize(const ScheduleShape& shape) {
  if (shape.microbatches() <= kMaxCells / shape.stages()) return absl::OkStatus();
  return InvalidArgument(
      "{} stages and {} microbatches are too many to show: at most {} of one times the other",
      shape.stages(), shape.microbatches(), kMaxCells);
}

// The compute instructions that are to be shown.
absl::StatusOr<ScheduleTable> LoadTable(const CommandContext& context,
                                        const ScheduleShowOptions& options) {
  if (!options.file.empty()) {
    PD_ASSIGN_OR_RETURN(std::string text, ReadTableFile(context, options.file));
    absl::StatusOr<ScheduleTable> pattern = ParseScheduleFile(text);
    if (!pattern.ok()) return Annotate(pattern.status(), options.file);
    ScheduleShape run = pattern->shape;
    if (options.minibatches > 0) {
      run.minibatches_per_epoch = options.minibatches;
      run.epochs = 1;
    }
    PD_RETURN_IF_ERROR(CheckSize(run));
    absl::StatusOr<ScheduleTable> table = RepeatTable(*pattern, run);
    return table.ok() ? table : Annotate(table.status(), options.file);
  }
  PD_ASSIGN_OR_RETURN(const ScheduleInfo* info, FindSchedule(options.name));
  PipelineSpec pipeline = options.pipeline;
  pipeline.minibatches = options.minibatches;
  if (pipeline.minibatches == 0) {
    // Schedules that step by minibatch and do not drain differ from one to the next.
    pipeline.minibatches = info->synchronous || StepsByRound(info->policy) ? 1 : 3;
  }
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOf(*info, pipeline));
  PD_RETURN_IF_ERROR(CheckSize(shape));
  return info->build(shape);
}

std::string Count(int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string Title(const ScheduleTable& table, const UnitCosts& costs) {
  const ScheduleShape& shape = table.shape;
  std::string text = table.name;
  for (const ScheduleInfo& info : AllSchedules()) {
    if (info.name == table.name) text += fmt::format(": {}", info.summary);
  }
  text += "\n" + Count(shape.devices(), "device", "devices");
  if (shape.stages() > shape.devices()) {
    text += fmt::format(" with {} stages each", shape.stages() / shape.devices());
  }
  text += ", " + Count(shape.minibatches(), "minibatch", "minibatches") + " of " +
          Count(shape.microbatches_per_minibatch, "microbatch", "microbatches");
  return text + fmt::format("; forward {}, backward {} + {}, link {}\n\n",
                            ShortNumber(costs.forward), ShortNumber(costs.backward_input),
                            ShortNumber(costs.backward_weight), ShortNumber(costs.link_latency));
}

}  // namespace

absl::StatusOr<int> ScheduleList(const CommandContext& context) {
  const Terminal& terminal = context.terminal;
  if (terminal.machine_readable()) {
    PrintMachine(terminal, ScheduleListJson());
  } else if (terminal.format == OutputFormat::kName) {
    for (const ScheduleInfo& info : AllSchedules()) *terminal.out << info.name << "\n";
  } else {
    *terminal.out << ScheduleListTable(terminal.headers);
  }
  return kExitOk;
}

absl::StatusOr<int> ScheduleShow(const CommandContext& context,
                                 const ScheduleShowOptions& options) {
  const Terminal& terminal = context.terminal;
  PD_RETURN_IF_ERROR(RefuseNames(terminal, "show"));
  if (!options.table.empty() && terminal.machine_readable()) {
    return WithReason(InvalidArgument("--table {} prints text: leave out -o", options.table),
                      kUsageReason);
  }
  PD_ASSIGN_OR_RETURN(ScheduleTable table, LoadTable(context, options));
  // Proves the table right, and says why if it is not.
  PD_ASSIGN_OR_RETURN(ScheduleReport report, ReportTable(table, options.costs));
  if (options.table == "text") {
    *terminal.out << FormatTable(table);
    return kExitOk;
  }
  if (options.table == "csv") {
    PD_ASSIGN_OR_RETURN(std::string csv, FormatPyTorchCsv(table));
    *terminal.out << csv;
    return kExitOk;
  }
  if (options.file.empty()) {
    PD_ASSIGN_OR_RETURN(report, ReportSchedule(options.name, options.pipeline, options.costs));
  }
  PD_ASSIGN_OR_RETURN(ScheduleTable lowered, LowerTable(table));
  SimulateOptions play = OptionsOf(options.costs, table.shape);
  play.record_spans = true;
  PD_ASSIGN_OR_RETURN(Simulation played, Simulate(lowered, play));
  if (!options.trace.empty()) {
    PD_RETURN_IF_ERROR(WriteFileAtomic(options.trace, ChromeTrace(played.spans)));
  }
  if (terminal.machine_readable()) {
    PrintMachine(terminal, ScheduleReportJson(report));
  } else {
    *terminal.out << Title(table, options.costs) << DrawGrid(lowered, played, terminal.width)
                  << "\n"
                  << ScheduleReportText(report, terminal.headers);
  }
  return kExitOk;
}

absl::StatusOr<int> ScheduleCompare(const CommandContext& context,
                                    const ScheduleCompareOptions& options) {
  const Terminal& terminal = context.terminal;
  PD_RETURN_IF_ERROR(RefuseNames(terminal, "compare"));
  ScheduleComparison comparison{.links = options.links, .rows = {}};
  std::map<std::string_view, std::string> left_out;
  for (int stages : options.stages) {
    for (int microbatches : options.microbatches) {
      for (const ScheduleInfo& info : AllSchedules()) {
        for (int chunks : info.place == nullptr ? std::vector<int>{1} : options.chunks) {
          if (chunks < info.min_chunks || chunks > info.max_chunks) continue;
          PipelineSpec pipeline;
          pipeline.devices = stages;
          pipeline.microbatches = microbatches;
          pipeline.chunks = chunks;
          if (absl::Status status = ShapeOf(info, pipeline).status(); !status.ok()) {
            left_out.try_emplace(info.name, status.message());
            continue;
          }
          ScheduleComparisonRow row{.stages = stages, .microbatches = microbatches, .reports = {}};
          for (double link : options.links) {
            UnitCosts costs = options.costs;
            costs.link_latency = link;
            PD_ASSIGN_OR_RETURN(ScheduleReport report, ReportSchedule(info.name, pipeline, costs));
            row.reports.push_back(std::move(report));
          }
          comparison.rows.push_back(std::move(row));
        }
      }
    }
  }
  for (const auto& [name, why] : left_out) {
    *terminal.err << fmt::format("{} is left out: {}\n", name, why);
  }
  if (terminal.machine_readable()) {
    PrintMachine(terminal, ScheduleComparisonJson(comparison));
  } else if (terminal.format == OutputFormat::kMarkdown) {
    *terminal.out << ScheduleComparisonMarkdown(comparison);
  } else {
    *terminal.out << ScheduleComparisonTable(comparison);
  }
  return kExitOk;
}

}  // namespace pipedream
