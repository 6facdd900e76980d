// Opens all channels of a worker, both directions at once.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "pipedream/v1/worker.pb.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/worker_state.h"
#include "worker/transport/connector.h"
#include "worker/transport/probe.h"

namespace pipedream {

// Not OK: what is being opened is not wanted any more. Asked many times a second; does not block.
using AbortCause = std::function<absl::Status()>;

// Blocks until every neighbour has done the same for its end; the first error or abort ends it, and
// `channels` is then of no use.
absl::Status OpenChannels(const v1::PrepareStageRequest& request, const WorkerState& worker,
                          Connector* connector, const AbortCause& aborted,
                          WorkerChannels* channels);

// Both ends of ProbeLink. Zero on the answering side.
absl::StatusOr<LinkMeasurement> ProbeLink(const v1::ProbeLinkRequest& request,
                                          const AbortCause& aborted, Connector* connector);

// "auto", "local", "shm", "tcp"; kInvalidArgument lists them.
absl::StatusOr<TransportKind> ParseTransport(const std::string& text);
// What kAuto comes down to between this worker and `peer`.
std::string TransportBetween(const DataAddress& self, const DataAddress& peer, TransportKind kind);

}  // namespace pipedream
