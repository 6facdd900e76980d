// Data that a network can be trained on without a download.
#pragma once

#include <cstdint>
#include <string>

#include "examples/models/networks.h"

namespace pipedream {

// Writes samples of the network's shape to `folder`, which is made if need be: train-x.npy,
// train-y.npy. Noise with a faint class pattern, so that a few steps lower the loss. False if it
// cannot be written.
bool WriteSyntheticData(const Network& network, const std::string& folder, int64_t samples,
                        uint64_t seed);

}  // namespace pipedream
