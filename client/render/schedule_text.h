// Schedules and what they cost, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "common/schedule/report.h"

namespace pipedream {

// "33", "27.5", "116.75": at most two decimals, no zeros behind.
std::string ShortNumber(double value);

// All schedules of the library.
std::string ScheduleListTable(bool headers);
std::string ScheduleListJson();

// The figures of one schedule, and of each of its devices.
std::string ScheduleReportText(const ScheduleReport& report, bool headers);
std::string ScheduleReportJson(const ScheduleReport& report);

// One schedule on one pipeline.
struct ScheduleComparisonRow {
  int stages = 0;
  int microbatches = 0;
  std::vector<ScheduleReport> reports;  // one per link latency
};
struct ScheduleComparison {
  std::vector<double> links;
  std::vector<ScheduleComparisonRow> rows;  // those of one pipeline together
};
std::string ScheduleComparisonTable(const ScheduleComparison& comparison);
std::string ScheduleComparisonMarkdown(const ScheduleComparison& comparison);
std::string ScheduleComparisonJson(const ScheduleComparison& comparison);

}  // namespace pipedream
