#include "coordinator/job/run_feedback.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace pipedream {
namespace {

// Of a replica: the first ones warm caches up, then enough follow for a mean.
constexpr int64_t kStartUp = 3;
constexpr int64_t kEnough = 8;
// Differences below this are noise, and planning by them would chase it.
constexpr double kNoise = 0.05;

}  // namespace

void RunFeedback::Add(const StageStatus& status, bool training_only) {
  if (!training_only || status.microbatches_backward < kStartUp) return;
  const auto [it, fresh] = windows_.try_emplace({status.stage, status.replica});
  if (fresh) it->second.first = status;
  it->second.last = status;
}

double RunFeedback::Measured(const Window& window) {
  const StageStatus &a = window.first, &b = window.last;
  const int64_t forwards = b.microbatches_forward - a.microbatches_forward;
  const int64_t backwards = b.microbatches_backward - a.microbatches_backward;
  if (forwards <= 0 || backwards < kEnough) return 0;
  return (b.forward_s - a.forward_s) / static_cast<double>(forwards) +
         (b.backward_s - a.backward_s + b.step_s - a.step_s) / static_cast<double>(backwards);
}

double RunFeedback::PredictedCompute(int stage) const {
  if (plan_.device_of.empty()) return plan_.stages[stage].compute_s;
  double sum = 0;
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (plan_.device_of[s] == plan_.device_of[stage]) sum += plan_.stages[s].compute_s;
  return sum;
}

std::vector<StageComparison> RunFeedback::Comparisons() const {
  std::vector<StageComparison> out;
  for (const auto& [place, window] : windows_) {
    const double measured = Measured(window);
    if (measured <= 0 || place.first >= std::ssize(plan_.stages)) continue;
    const PlanStage& stage = plan_.stages[place.first];
    StageComparison comparison{.stage = place.first,
                               .replica = place.second,
                               .worker_id = window.last.worker_id,
                               .predicted_compute_s = PredictedCompute(place.first),
                               .measured_compute_s = measured};
    if (place.first + 1 < std::ssize(plan_.stages) && plan_.device_of.empty()) {
      comparison.predicted_link_s = stage.send_s;
      if (window.last.link_bytes_per_s > 0) {
        comparison.measured_link_s =
            static_cast<double>(stage.sent_bytes) / window.last.link_bytes_per_s;
      }
    }
    out.push_back(std::move(comparison));
  }
  return out;
}

bool RunFeedback::complete() const {
  size_t replicas = 0;
  std::map<int, bool> devices;
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const int device = plan_.device_of.empty() ? static_cast<int>(s) : plan_.device_of[s];
    if (devices.emplace(device, true).second) replicas += plan_.stages[s].workers.size();
  }
  return Comparisons().size() == replicas;
}

double RunFeedback::Expected(const ClusterTopology& topology, const StageComparison& comparison,
                             const DeviceInfo& device) const {
  double slowest = device.speed;
  for (const std::string& id : plan_.stages[comparison.stage].workers) {
    const auto other = std::ranges::find(topology.devices, id, &DeviceInfo::worker_id);
    if (other == topology.devices.end()) continue;
    if (other->kind != device.kind) return 0;
    slowest = std::min(slowest, other->speed);
  }
  return comparison.predicted_compute_s * slowest / device.speed;
}

ClusterTopology RunFeedback::AsMeasured(ClusterTopology topology) const {
  const ClusterTopology before = topology;
  for (const StageComparison& comparison : Comparisons()) {
    const auto device =
        std::ranges::find(topology.devices, comparison.worker_id, &DeviceInfo::worker_id);
    if (device == topology.devices.end()) continue;
    const double expected =
        Expected(before, comparison, before.devices[device - topology.devices.begin()]);
    const double ratio = expected / comparison.measured_compute_s;
    if (expected > 0 && std::abs(ratio - 1) > kNoise) device->speed *= ratio;
    if (comparison.measured_link_s <= (1 + kNoise) * comparison.predicted_link_s) continue;
    // Slower than measured before the run: all that leaves this worker for other hosts.
    const double rate =
        static_cast<double>(plan_.stages[comparison.stage].sent_bytes) / comparison.measured_link_s;
    const int from = static_cast<int>(device - topology.devices.begin());
    for (LinkInfo& link : topology.links) {
      if (link.from != from || topology.devices[link.to].host_id == device->host_id) continue;
      link.bandwidth_bytes_per_s = std::min(link.bandwidth_bytes_per_s, rate);
    }
  }
  return topology;
}

}  // namespace pipedream
