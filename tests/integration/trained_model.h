// What a job of real processes trained, and what one thread computes for the same job and plan.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "pipedream/v1/job.pb.h"
#include "tests/integration/cluster.h"
#include "tests/support/small_job.h"
#include "worker/engine/simulation.h"

namespace pipedream {

// What `submit` is told: two epochs over the files of `small`, 37 samples in minibatches of 8 (the
// last one of an epoch holds 5), its model or another, and `more`.
Words JobWords(const SmallJob& small, const Words& more, const std::string& model_path = "");

// Name -> bytes of every initialiser of an ONNX file (raw data only).
absl::StatusOr<std::map<std::string, std::string>> ReadInitialisers(const std::string& path);

// The job as it was resolved and planned, over the files of `small`.
absl::StatusOr<SimulationOptions> SimulationOf(const v1::Job& job, const SmallJob& small);

// The same, with another model.
absl::StatusOr<SimulationOptions> SimulationOf(const v1::Job& job, const SmallJob& small,
                                               std::shared_ptr<const Model> model);

// The same job on one stage.
SimulationOptions OnOneStage(SimulationOptions options);

// Expects the exported model's initialisers, the loss of every minibatch and every evaluation to be
// the simulation's, bit for bit.
void ExpectBitEqual(const v1::Job& job, const std::string& exported_path,
                    const SimulationResult& simulated);

// "2-1", whatever the devices.
std::string ConfigOf(const v1::Job& job);

}  // namespace pipedream
