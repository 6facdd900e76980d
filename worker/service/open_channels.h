// Opens all channels of a stage, both directions at once.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "pipedream/v1/worker.pb.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_state.h"
#include "worker/transport/connector.h"
#include "worker/transport/probe.h"

namespace pipedream {

// Blocks until every neighbour has done the same for its end; the first error ends the others.
absl::Status OpenStageChannels(const v1::PrepareStageRequest& request, const StageState& stage,
                               Connector* connector, StageChannels* channels);

// Both ends of ProbeLink. Zero on the answering side.
absl::StatusOr<LinkMeasurement> ProbeLink(const v1::ProbeLinkRequest& request,
                                          Connector* connector);

// "auto", "local", "shm", "tcp"; kInvalidArgument lists them.
absl::StatusOr<TransportKind> ParseTransport(const std::string& text);
// What kAuto comes down to between this worker and `peer`.
std::string TransportBetween(const DataAddress& self, const DataAddress& peer, TransportKind kind);

}  // namespace pipedream
