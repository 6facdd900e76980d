// The coordinator's side of WorkerService: what worker.proto says of each call holds here.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/schedule/stage_program.h"
#include "coordinator/job/effects.h"
#include "coordinator/launch/cancel_token.h"

namespace pipedream {

struct CallOptions {
  Duration timeout{};
  std::shared_ptr<CancelToken> cancel;  // null: never
};

struct ProbeRequest {
  std::string name;
  std::string secret;
  WorkerAddress peer;
  bool measure = false;
  std::string transport;
};
struct ProbeResult {
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
  std::string transport;
};

struct PrepareRequest {
  JobContext job;
  Plan plan;
  StageProgram program;
  std::vector<JobMember> members;
  std::string secret;
};

// Calls block; thread-safe. Errors are the worker's, or kUnavailable, kDeadlineExceeded, kCancelled
// naming the worker.
class WorkerClient {
 public:
  virtual ~WorkerClient() = default;
  virtual absl::StatusOr<Profile> MeasureProfile(const JobContext& job,
                                                 const CallOptions& options) = 0;
  virtual absl::StatusOr<ProbeResult> ProbeLink(const ProbeRequest& request,
                                                const CallOptions& options) = 0;
  // Bytes allocated.
  virtual absl::StatusOr<int64_t> PrepareStage(const PrepareRequest& request,
                                               const CallOptions& options) = 0;
  virtual absl::Status StartStage(const StageRef& ref, const CallOptions& options) = 0;
  virtual absl::Status AbortStage(const StageRef& ref, const std::string& cause,
                                  const CallOptions& options) = 0;
  // Writes the safetensors file to `path`.
  virtual absl::Status FetchWeights(const StageRef& ref, const std::string& path,
                                    const CallOptions& options) = 0;
  virtual absl::StatusOr<VerifyReport> VerifyRun(const VerifyOrder& order,
                                                 const CallOptions& options) = 0;
};

// Thread-safe.
class WorkerClients {
 public:
  virtual ~WorkerClients() = default;
  virtual absl::StatusOr<std::shared_ptr<WorkerClient>> Get(const WorkerInfo& worker) = 0;
};

}  // namespace pipedream
