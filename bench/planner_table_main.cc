// planner_table DIR: what the planner makes of the published profiles (DIR/*.graph.txt) on clusters
// of 16 equal workers, as the table of docs/planner.md. Times are seconds of the profiles' device.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/plan/published_profile.h"
#include "common/planner/planner.h"

namespace pipedream {
namespace {

struct ClusterKind {
  const char* name;
  int servers;
  int workers_each;
  double inside_bytes_per_s;  // between workers of a server
  double nic_bytes_per_s;     // of a server, shared by its workers
};

constexpr ClusterKind kClusters[] = {
    {"4x4, 10 GB/s, 10 Gb/s", 4, 4, 1e10, 1.25e9},
    {"8x2, 25 GB/s, 25 Gb/s", 8, 2, 2.5e10, 3.125e9},
    {"16x1, 10 Gb/s", 16, 1, 1.25e9, 1.25e9},
};

constexpr const char* kModels[] = {
    "alexnet",   "vgg16",       "squeezenet1_0", "resnet18",      "resnet50",     "resnet101", "resnext50",
    "resnext101", "densenet121", "inception_v3",  "nasnetamobile", "nasnetalarge", "gnmt",      "gnmt_large"};

ClusterTopology Topology(const ClusterKind& kind) {
  ClusterTopology topology;
  const int count = kind.servers * kind.workers_each;
  for (int w = 0; w < count; ++w) {
    const int server = w / kind.workers_each;
    topology.devices.push_back(
        {fmt::format("worker-{}", w), "published", 0, fmt::format("server-{}", server)});
    topology.ports.push_back({fmt::format("worker-{}", w), kind.inside_bytes_per_s});
  }
  for (int s = 0; s < kind.servers; ++s)
    topology.ports.push_back({fmt::format("server-{}", s), kind.nic_bytes_per_s});
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (a == b) continue;
      const int from = a / kind.workers_each, to = b / kind.workers_each;
      if (from == to) {
        topology.links.push_back({a, b, kind.inside_bytes_per_s, 5e-6, "shm", a, b});
      } else {
        topology.links.push_back(
            {a, b, kind.nic_bytes_per_s, 3e-5, "tcp", count + from, count + to});
      }
    }
  }
  return topology;
}

int Run(const std::string& folder) {
  for (const ClusterKind& kind : kClusters) {
    fmt::print("**{}**\n\n", kind.name);
    fmt::print("| model | plan | played | overlapped | data parallel | straight | one worker | bytes saved | gap | planned in |\n");
    fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
    for (const char* model : kModels) {
      const std::string path = fmt::format("{}/{}.graph.txt", folder, model);
      std::ifstream file(path);
      if (!file) {
        fmt::print(stderr, "planner_table: cannot open {}\n", path);
        return 1;
      }
      std::stringstream text;
      text << file.rdbuf();
      absl::StatusOr<Profile> profile = ParsePublishedProfile(text.str(), path);
      if (!profile.ok()) {
        fmt::print(stderr, "planner_table: {}\n", std::string(profile.status().message()));
        return 1;
      }
      PlanRequest request;
      request.profiles = {*std::move(profile)};
      request.topology = Topology(kind);
      const auto begin = std::chrono::steady_clock::now();
      absl::StatusOr<Plan> plan = MakePlan(request);
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (!plan.ok()) {
        fmt::print(stderr, "planner_table: {}: {}\n", model, std::string(plan.status().message()));
        return 1;
      }
      std::string others[3];
      for (const PlanAlternative& other : plan->alternatives) {
        const int column = other.name == "data parallel"       ? 0
                           : other.name == "straight pipeline" ? 1
                           : other.name == "one worker"        ? 2
                                                               : -1;
        if (column >= 0 && other.step_s > 0)
          others[column] = fmt::format("{:.1f}", other.step_s * 1e3);
      }
      const double saved =
          plan->data_parallel_bytes > 0
              ? 1 - static_cast<double>(plan->moved_bytes) / static_cast<double>(plan->data_parallel_bytes)
              : 0;
      fmt::print("| {} | {} | {:.1f} | {:.1f} | {} | {} | {} | {:.0f} % | {:.0f} % | {:.2f} s |\n",
                 model, plan->config(), plan->step_s * 1e3, plan->bottleneck_s * 1e3, others[0],
                 others[1], others[2], saved * 100, plan->optimality_gap * 100, seconds);
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace pipedream

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: planner_table DIR (with alexnet.graph.txt and the others)\n");
    return 2;
  }
  return pipedream::Run(argv[1]);
}
