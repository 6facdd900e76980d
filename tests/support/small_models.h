// Other networks for the data of SmallJob (small_job.h).
#pragma once

#include <string>

namespace pipedream {

// Values that skip stages: relu1 is read by conv2, by the first and by the second addition. Writes
// into `folder`; returns the path.
std::string WriteSkipModel(const std::string& folder);

// The first and the last node with parameters read the same matrix. 64 classes.
std::string WriteTiedModel(const std::string& folder);

}  // namespace pipedream
