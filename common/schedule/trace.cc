#include "common/schedule/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace pipedream {
namespace {

std::string_view Category(Op op) {
  switch (op) {
    case Op::kForward:
      return "forward";
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      return "backward";
    case Op::kEvaluate:
      return "evaluate";
    case Op::kReduce:
    case Op::kTie:
    case Op::kNorm:
    case Op::kValidate:
      return "collective";
    case Op::kStep:
    case Op::kPin:
    case Op::kUnpin:
      return "update";
    default:
      return "transfer";
  }
}

int ThreadOf(const Span& span) {
  return 2 * span.worker.replica.value() + (IsSend(span.instruction.op) ? 1 : 0);
}

}  // namespace

std::string ChromeTrace(std::span<const Span> spans) {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  auto out = std::back_inserter(json);
  std::string_view separator = "";
  std::set<int> processes;
  std::set<std::pair<int, int>> threads;
  for (const Span& span : spans) {
    int stage = span.worker.stage.value();
    int thread = ThreadOf(span);
    if (processes.insert(stage).second) {
      fmt::format_to(out,
                     "{}\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":"
                     "\"stage {}\"}}}}",
                     separator, stage, stage);
      separator = ",";
    }
    if (threads.emplace(stage, thread).second) {
      fmt::format_to(out,
                     "{}\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{"
                     "\"name\":\"replica {}{}\"}}}}",
                     separator, stage, thread, span.worker.replica, thread % 2 ? " sends" : "");
    }
    fmt::format_to(out,
                   "{}\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},"
                   "\"ts\":{:.3f},\"dur\":{:.3f}}}",
                   separator, Format(span.instruction), Category(span.instruction.op), stage,
                   thread, span.start_s * 1e6, (span.end_s - span.start_s) * 1e6);
  }
  json += "\n]}\n";
  return json;
}

}  // namespace pipedream
