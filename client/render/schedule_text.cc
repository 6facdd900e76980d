#include "client/render/schedule_text.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/render/json.h"
#include "client/render/table.h"

namespace pipedream {
namespace {

using Align = TextTable::Align;
using Json = nlohmann::ordered_json;

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// "interleaved x4": with the stages per device where they are not one.
std::string NameOf(const ScheduleReport& report) {
  return report.chunks > 1 ? fmt::format("{} x{}", report.schedule, report.chunks)
                           : report.schedule;
}

Json ToJson(const ScheduleReport& report) {
  Json json = {{"schedule", report.schedule},
               {"policy", std::string(PolicyName(report.policy))},
               {"stages", report.devices},
               {"chunks", report.chunks},
               {"microbatches", report.microbatches},
               {"makespan", report.makespan},
               {"ideal", report.ideal},
               {"bubble", report.bubble},
               {"idle_ratio", report.idle},
               {"per_microbatch", report.per_microbatch},
               {"peak_activations", report.peak_activations},
               {"weight_copies", report.weight_copies},
               {"staleness", report.staleness},
               {"messages_per_microbatch", report.messages_per_microbatch}};
  json["devices"] = Json::array();
  for (const DeviceReport& device : report.workers) {
    json["devices"].push_back({{"stage", device.worker.stage.value()},
                               {"replica", device.worker.replica.value()},
                               {"peak_activations", device.peak_activations},
                               {"weight_copies", device.weight_copies},
                               {"staleness", device.staleness},
                               {"idle_ratio", device.idle}});
  }
  return json;
}

// The figures of a comparison that links have no bearing on, as in `titles`.
std::vector<std::string> FixedCells(const ScheduleReport& report) {
  return {ShortNumber(report.peak_activations), fmt::format("{}", report.weight_copies),
          fmt::format("{}", report.staleness), ShortNumber(report.messages_per_microbatch)};
}
constexpr std::string_view kFixedTitles[] = {"peak activations", "weight copies", "staleness",
                                             "messages"};

std::string TimeCell(const ScheduleReport& report) {
  return fmt::format("{} ({})", ShortNumber(report.makespan), Percent(report.idle));
}

// Calls `row` for every row, and `begin` before the first of each pipeline.
template <typename Begin, typename Row>
void ForEachPipeline(const ScheduleComparison& comparison, Begin begin, Row row) {
  const ScheduleComparisonRow* last = nullptr;
  for (const ScheduleComparisonRow& one : comparison.rows) {
    if (last == nullptr || last->stages != one.stages || last->microbatches != one.microbatches) {
      begin(one);
    }
    row(one);
    last = &one;
  }
}

std::string Heading(const ScheduleComparisonRow& row) {
  return fmt::format("{} devices, {} microbatches, ideal {}", row.stages, row.microbatches,
                     ShortNumber(row.reports[0].ideal));
}

}  // namespace

std::string ShortNumber(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string ScheduleListTable(bool headers) {
  TextTable table({{"NAME"}, {"UPDATES"}, {"STAGES PER DEVICE"}, {"SUMMARY"}});
  for (const ScheduleInfo& info : AllSchedules()) {
    table.Add({std::string(info.name), info.synchronous ? "synchronous" : "asynchronous",
               info.max_chunks > info.min_chunks
                   ? fmt::format("{} to {}", info.min_chunks, info.max_chunks)
                   : fmt::format("{}", info.min_chunks),
               std::string(info.summary)});
  }
  return table.ToString(headers);
}

std::string ScheduleListJson() {
  Json json = JsonHead("ScheduleList");
  json["items"] = Json::array();
  for (const ScheduleInfo& info : AllSchedules()) {
    json["items"].push_back({{"name", std::string(info.name)},
                             {"synchronous", info.synchronous},
                             {"policy", std::string(PolicyName(info.policy))},
                             {"min_chunks", info.min_chunks},
                             {"max_chunks", info.max_chunks},
                             {"summary", std::string(info.summary)}});
  }
  return DumpJson(json);
}

std::string ScheduleReportText(const ScheduleReport& report, bool headers) {
  std::string text;
  auto field = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<17}{}\n", fmt::format("{}:", name), value);
  };
  field("time",
        fmt::format("{} for {} microbatches{}, {} each", ShortNumber(report.makespan),
                    report.microbatches, IsSynchronous(report.policy) ? "" : " in the steady state",
                    ShortNumber(report.per_microbatch)));
  field("bubble", fmt::format("{} over the ideal {}, devices idle {}", ShortNumber(report.bubble),
                              ShortNumber(report.ideal), Percent(report.idle)));
  field("messages", fmt::format("{} per microbatch", ShortNumber(report.messages_per_microbatch)));
  text += '\n';
  TextTable table({{"DEVICE"},
                   {"PEAK ACTIVATIONS", Align::kRight},
                   {"WEIGHT COPIES", Align::kRight},
                   {"STALENESS", Align::kRight},
                   {"IDLE", Align::kRight}});
  for (const DeviceReport& device : report.workers) {
    table.Add({fmt::format("s{}.r{}", device.worker.stage, device.worker.replica),
               ShortNumber(device.peak_activations), fmt::format("{}", device.weight_copies),
               fmt::format("{}", device.staleness), Percent(device.idle)});
  }
  return text + table.ToString(headers);
}

std::string ScheduleReportJson(const ScheduleReport& report) {
  Json json = JsonHead("ScheduleReport");
  json.update(ToJson(report));
  return DumpJson(json);
}

std::string ScheduleComparisonTable(const ScheduleComparison& comparison) {
  std::string text;
  std::vector<TextTable::Column> columns = {{"SCHEDULE"}};
  for (double link : comparison.links) {
    columns.push_back({fmt::format("LINK {}", ShortNumber(link)), Align::kRight});
  }
  for (std::string_view title : kFixedTitles) {
    std::string upper(title);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    columns.push_back({upper, Align::kRight});
  }
  TextTable table(columns);
  auto flush = [&] {
    text += table.ToString(true);
    table = TextTable(columns);
  };
  ForEachPipeline(
      comparison,
      [&](const ScheduleComparisonRow& row) {
        if (!text.empty()) {
          flush();
          text += '\n';
        }
        text += Heading(row) + "\n";
      },
      [&](const ScheduleComparisonRow& row) {
        std::vector<std::string> cells = {NameOf(row.reports[0])};
        for (const ScheduleReport& report : row.reports) cells.push_back(TimeCell(report));
        for (std::string& cell : FixedCells(row.reports[0])) cells.push_back(std::move(cell));
        table.Add(std::move(cells));
      });
  if (!text.empty()) flush();
  return text;
}

std::string ScheduleComparisonMarkdown(const ScheduleComparison& comparison) {
  std::string text;
  ForEachPipeline(
      comparison,
      [&](const ScheduleComparisonRow& row) {
        text += fmt::format("{}**{}**\n\n| schedule |", text.empty() ? "" : "\n", Heading(row));
        for (double link : comparison.links) text += fmt::format(" link {} |", ShortNumber(link));
        text += fmt::format(" {} |\n|---|", fmt::join(kFixedTitles, " | "));
        for (size_t k = 0; k < comparison.links.size() + std::size(kFixedTitles); ++k) {
          text += "--:|";
        }
        text += '\n';
      },
      [&](const ScheduleComparisonRow& row) {
        text += fmt::format("| `{}` |", NameOf(row.reports[0]));
        for (const ScheduleReport& report : row.reports) {
          text += fmt::format(" {} |", TimeCell(report));
        }
        text += fmt::format(" {} |\n", fmt::join(FixedCells(row.reports[0]), " | "));
      });
  return text;
}

std::string ScheduleComparisonJson(const ScheduleComparison& comparison) {
  Json json = JsonHead("ScheduleComparison");
  json["items"] = Json::array();
  for (const ScheduleComparisonRow& row : comparison.rows) {
    for (size_t k = 0; k < comparison.links.size(); ++k) {
      Json item = {{"link", comparison.links[k]}};
      item.update(ToJson(row.reports[k]));
      json["items"].push_back(std::move(item));
    }
  }
  return DumpJson(json);
}

}  // namespace pipedream
