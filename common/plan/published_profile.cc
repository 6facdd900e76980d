#include "common/plan/published_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "common/base/status.h"

namespace pipedream {
namespace {

struct PublishedNode {
  NodeProfile profile;
  bool input = false;
  std::vector<int> readers;
};
using PublishedGraph = std::map<int, PublishedNode>;  // by the number in "node12"

std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> out;
  for (size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    out.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  out.push_back(text);
  return out;
}

bool ParseId(std::string_view text, int* id) {
  if (!text.starts_with("node")) return false;
  text.remove_prefix(4);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *id);
  return error == std::errc() && end == text.data() + text.size();
}

// "12.5" or "[1.0; 2.0]", which is summed.
bool ParseAmount(std::string_view text, double* amount) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  *amount = 0;
  for (const std::string_view item : Split(text, "; ")) {
    double value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc() || end != item.data() + item.size()) return false;
    if (!std::isfinite(value) || value < 0 || value > 1e18) return false;
    *amount += value;
  }
  return true;
}

bool ParseNode(std::string_view line, PublishedGraph* graph) {
  const std::vector<std::string_view> fields = Split(line, " -- ");
  int id = 0;
  if (fields.size() < 3 || !ParseId(fields[0], &id) || graph->contains(id)) return false;
  static constexpr std::string_view kKeys[] = {
      "forward_compute_time=", "backward_compute_time=", "activation_size=", "parameter_size="};
  const std::vector<std::string_view> items = Split(fields[2], ", ");
  double amounts[4];
  if (items.size() != 4) return false;
  for (int i = 0; i < 4; ++i) {
    if (!items[i].starts_with(kKeys[i])) return false;
    if (!ParseAmount(items[i].substr(kKeys[i].size()), &amounts[i])) return false;
  }
  PublishedNode& node = (*graph)[id];
  node.input = fields[1].starts_with("Input");
  node.profile.name = std::string(fields[0]);
  node.profile.op = std::string(fields[1]);
  node.profile.forward_s = amounts[0] / 1e3;
  node.profile.input_gradient_s = amounts[1] / 1e3;
  node.profile.output_bytes = std::llround(amounts[2]);
  node.profile.saved_bytes = node.profile.output_bytes;
  node.profile.parameter_bytes = std::llround(amounts[3]);
  return true;
}

bool ParseEdge(std::string_view line, PublishedGraph* graph) {
  const std::vector<std::string_view> ends = Split(line.substr(1), " -- ");
  int from = 0, to = 0;
  if (ends.size() != 2 || !ParseId(ends[0], &from) || !ParseId(ends[1], &to)) return false;
  if (!graph->contains(from) || !graph->contains(to)) return false;
  (*graph)[from].readers.push_back(to);
  return true;
}

// Inputs first, then the smallest id whose producers are all placed. Shorter than the graph if
// there is a cycle.
std::vector<int> Order(const PublishedGraph& graph) {
  std::map<int, int> missing;
  for (const auto& [id, node] : graph)
    for (const int reader : node.readers) ++missing[reader];
  std::set<std::pair<bool, int>> ready;  // inputs sort before others
  for (const auto& [id, node] : graph)
    if (missing[id] == 0) ready.insert({!node.input, id});
  std::vector<int> order;
  while (!ready.empty()) {
    const int id = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(id);
    for (const int reader : graph.at(id).readers)
      if (--missing[reader] == 0) ready.insert({!graph.at(reader).input, reader});
  }
  return order;
}

}  // namespace

absl::StatusOr<Profile> ParsePublishedProfile(std::string_view text, std::string_view file_name) {
  PublishedGraph graph;
  int number = 0;
  for (std::string_view line : Split(text, "\n")) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (!(line.starts_with('\t') ? ParseEdge(line, &graph) : ParseNode(line, &graph))) {
      return InvalidArgument(
          "{}:{}: expected 'nodeN -- description -- forward_compute_time=.., ...' or, after a tab, "
          "an "
          "edge 'nodeN -- nodeM' between known nodes",
          file_name, number);
    }
  }
  const std::vector<int> order = Order(graph);
  if (order.size() != graph.size()) return InvalidArgument("{}: the graph has a cycle", file_name);
  std::map<int, int> position;  // among the nodes that are no inputs; -1 for inputs
  Profile profile;
  profile.device_kind = "published";
  for (const int id : order) {
    position[id] = graph[id].input ? -1 : static_cast<int>(profile.nodes.size());
    if (!graph[id].input) profile.nodes.push_back(graph[id].profile);
  }
  if (profile.nodes.empty()) return InvalidArgument("{}: has no nodes", file_name);
  for (const int id : order) {
    const PublishedNode& node = graph[id];
    ProfileTensor tensor;
    tensor.bytes = node.profile.output_bytes;
    if (!node.input) tensor.early = {position[id]};
    for (const int reader : node.readers) tensor.late.push_back(position[reader]);
    std::ranges::sort(tensor.late);
    tensor.late.erase(std::unique(tensor.late.begin(), tensor.late.end()), tensor.late.end());
    if (tensor.late.empty()) continue;
    profile.tensors.push_back(tensor);
    tensor.gradient = true;
    profile.tensors.push_back(std::move(tensor));
  }
  for (const NodeProfile& node : profile.nodes) profile.step_s += node.compute_s();
  return profile;
}

}  // namespace pipedream
