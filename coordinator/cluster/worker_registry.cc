#include "coordinator/cluster/worker_registry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr std::string_view kPrefix = "worker-";

bool ValidId(std::string_view id) {
  if (id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::Status Check(const WorkerInfo& info) {
  if (!ValidId(info.id))
    return InvalidArgument("worker.id '{}': expected at most 64 letters, digits, '-', '_' or '.'",
                           info.id);
  if (info.device_kind.empty() || info.device_kind.size() > 256)
    return InvalidArgument("worker.device_kind: expected 1 to 256 characters");
  if (info.memory_bytes < 0)
    return InvalidArgument("worker.memory_bytes {}: expected 0 (unknown) or more",
                           info.memory_bytes);
  if (info.control_address.find(':') == std::string::npos || info.control_address.size() > 256)
    return InvalidArgument("worker.control_address '{}': expected HOST:PORT", info.control_address);
  if (info.data_address.port <= 0 || info.data_address.port > 65535)
    return InvalidArgument("worker.data_address.port {}: expected 1 to 65535",
                           info.data_address.port);
  if (!std::isfinite(info.speed) || info.speed < 0)
    return InvalidArgument("worker.speed {}: expected 0 (unknown) or more", info.speed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerRegistry::Registration> WorkerRegistry::Register(WorkerInfo info, Duration now,
                                                                      int64_t unix_us) {
  PD_RETURN_IF_ERROR(Check(info));
  size_t live = std::count_if(workers_.begin(), workers_.end(),
                              [](const auto& entry) { return !entry.second.lost; });
  if (live >= options_.max_workers)
    return ResourceExhausted("{} workers are registered; that is the limit", live);
  if (info.id.empty()) info.id = fmt::format("{}{}", kPrefix, highest_number_ + 1);
  Reserve(info.id);
  Registration result{info.id, next_incarnation_++, false};
  RegisteredWorker& worker = workers_[info.id];
  result.replaced_live = worker.incarnation != 0 && !worker.lost;
  worker = {.info = std::move(info),
            .incarnation = result.incarnation,
            .lost = false,
            .registered_us = unix_us,
            .last_heartbeat_us = unix_us,
            .last_heartbeat = now};
  return result;
}

absl::Status WorkerRegistry::Heartbeat(const std::string& id, int64_t incarnation, Duration now,
                                       int64_t unix_us) {
  auto it = workers_.find(id);
  if (it == workers_.end() || it->second.lost || it->second.incarnation != incarnation)
    return WithReason(
        NotFound("worker '{}' incarnation {} has no lease; register anew", id, incarnation),
        "LEASE_LOST");
  it->second.last_heartbeat = now;
  it->second.last_heartbeat_us = unix_us;
  return absl::OkStatus();
}

std::vector<std::string> WorkerRegistry::Expire(Duration now) {
  std::vector<std::string> expired;
  for (auto it = workers_.begin(); it != workers_.end();) {
    RegisteredWorker& worker = it->second;
    Duration silent = now - worker.last_heartbeat;
    if (!worker.lost && silent > options_.lease) {
      worker.lost = true;
      expired.push_back(it->first);
    }
    bool forget = worker.lost && silent > options_.lease + options_.remember_lost;
    it = forget ? workers_.erase(it) : std::next(it);
  }
  return expired;
}

void WorkerRegistry::Reserve(const std::string& id) {
  std::string_view text = id;
  if (!text.starts_with(kPrefix)) return;
  text.remove_prefix(kPrefix.size());
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // A number that a worker made up must not use up the range.
  if (error == std::errc() && end == text.data() + text.size() && number < int64_t{1} << 40)
    highest_number_ = std::max(highest_number_, number);
}

const RegisteredWorker* WorkerRegistry::Find(const std::string& id) const {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

std::vector<RegisteredWorker> WorkerRegistry::List() const {
  std::vector<RegisteredWorker> list;
  for (const auto& [id, worker] : workers_) list.push_back(worker);
  return list;
}

}  // namespace pipedream
