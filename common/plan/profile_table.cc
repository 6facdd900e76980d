#include "common/plan/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/units.h"
#include "common/plan/text_columns.h"

namespace pipedream {
namespace {

constexpr size_t kMostShown = 5;  // of the whole model
constexpr size_t kShownOfStage = 3;
constexpr size_t kNameWidth = 30;

std::string Seconds(double seconds) { return seconds == 0 ? "-" : FormatSeconds(seconds); }
std::string Bytes(int64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

// The end of a name says more than its beginning.
std::string Short(const std::string& name, size_t width = kNameWidth) {
  if (name.size() <= width) return name;
  return ".." + name.substr(name.size() - width + 2);
}

std::string Beginning(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

// The nodes of `among` that take longest, at most `count`.
std::vector<int> Longest(const Profile& profile, std::vector<int> among, size_t count) {
  std::ranges::stable_sort(among, [&](int a, int b) {
    return profile.nodes[a].compute_s() > profile.nodes[b].compute_s();
  });
  among.resize(std::min(among.size(), count));
  return among;
}

std::vector<std::string> NodeRow(const std::string& number, const std::string& name,
                                 const NodeProfile& node) {
  return {number,
          name,
          Seconds(node.forward_s),
          Seconds(node.input_gradient_s),
          Seconds(node.weight_gradient_s),
          Seconds(node.optimizer_s),
          Bytes(node.parameter_bytes),
          Bytes(node.output_bytes)};
}

}  // namespace

std::string FormatProfileTable(const Profile& profile) {
  NodeProfile sum;
  for (const NodeProfile& node : profile.nodes) {
    sum.forward_s += node.forward_s;
    sum.input_gradient_s += node.input_gradient_s;
    sum.weight_gradient_s += node.weight_gradient_s;
    sum.optimizer_s += node.optimizer_s;
    sum.parameter_bytes += node.parameter_bytes;
    sum.saved_bytes += node.saved_bytes;
    sum.workspace_bytes = std::max(sum.workspace_bytes, node.workspace_bytes);
  }
  std::vector<std::vector<std::string>> rows = {
      {"node", "name", "forward", "input", "weight", "update", "parameters", "output"}};
  for (size_t n = 0; n < profile.nodes.size(); ++n)
    rows.push_back(NodeRow(fmt::format("{}", n), Short(profile.nodes[n].name), profile.nodes[n]));
  rows.push_back(NodeRow("", "all", sum));
  std::string out = fmt::format("Profile: {} nodes on {}\n", profile.nodes.size(),
                                profile.device_kind.empty() ? "-" : profile.device_kind);
  if (profile.microbatch_size > 0)
    out += fmt::format("Microbatch of {} samples: {} measured as a whole\n",
                       profile.microbatch_size, Seconds(profile.step_s));
  out += "\n" + AlignedColumns(rows, 2) + "\n";
  out +=
      fmt::format("Sum: {} per microbatch; {} of parameters, {} optimizer tensor{} of their size\n",
                  Seconds(sum.compute_s()), FormatBytes(sum.parameter_bytes),
                  profile.optimizer_state_tensors, profile.optimizer_state_tensors == 1 ? "" : "s");
  std::vector<int> all(profile.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  rows = {{"longest", "name", "op", "compute", "share"}};
  for (const int n : Longest(profile, all, kMostShown)) {
    const NodeProfile& node = profile.nodes[n];
    rows.push_back({fmt::format("{}", n), Short(node.name), Beginning(node.op, kNameWidth),
                    Seconds(node.compute_s()), Percent(node.compute_s(), sum.compute_s())});
  }
  return out + "\n" + AlignedColumns(rows, 3);
}

std::string FormatStageNodes(const Plan& plan, const Profile& profile) {
  double total = 0;
  for (const NodeProfile& node : profile.nodes) total += node.compute_s();
  std::vector<std::vector<std::string>> rows = {
      {"stage", "node", "longest of it", "op", "compute", "of stage", "parameters"}};
  std::string out;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    double own = 0;
    for (const int n : plan.stages[s].nodes) own += profile.nodes[n].compute_s();
    for (const int n : Longest(profile, plan.stages[s].nodes, kShownOfStage)) {
      const NodeProfile& node = profile.nodes[n];
      rows.push_back({fmt::format("{}", s), fmt::format("{}", n), Short(node.name, 24),
                      Beginning(node.op, 18), Seconds(node.compute_s()),
                      Percent(node.compute_s(), own), Bytes(node.parameter_bytes)});
    }
    out += fmt::format("{}stage {} {}", s == 0 ? "" : ", ", s, Percent(own, total));
  }
  return "Shares of the compute time: " + out + "\n\n" + AlignedColumns(rows, 4);
}

}  // namespace pipedream
