// make-model NETWORK OUT.onnx [SEED]: writes one of the example networks with initial weights.
// make-model NETWORK --data DIR SAMPLES [SEED]: writes samples of its shape (train-x.npy,
// train-y.npy): noise with a faint class pattern, so that a few steps lower the loss.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "examples/models/networks.h"
#include "examples/models/synthetic_data.h"

namespace pipedream {
namespace {

int Usage() {
  std::fprintf(stderr,
               "usage: make-model NETWORK OUT.onnx [SEED]\n"
               "       make-model NETWORK --data DIR SAMPLES [SEED]\n\nnetworks:\n");
  for (const Network& network : AllNetworks())
    std::fprintf(stderr, "  %-10s %s\n", std::string(network.name).c_str(),
                 std::string(network.summary).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  if (argc < 3) return Usage();
  for (const Network& network : AllNetworks()) {
    if (network.name != argv[1]) continue;
    const bool data = std::strcmp(argv[2], "--data") == 0;
    if (argc > (data ? 6 : 4) || (data && argc < 5)) return Usage();
    const int seed_at = data ? 5 : 3;
    const uint64_t seed = argc > seed_at ? std::strtoull(argv[seed_at], nullptr, 10) : 0;
    const std::string path = data ? argv[3] : argv[2];
    const bool ok = data ? WriteSyntheticData(network, path, std::atoll(argv[4]), seed)
                         : network.write(network, seed, path);
    if (!ok) std::fprintf(stderr, "cannot write '%s'\n", path.c_str());
    return ok ? 0 : 1;
  }
  std::fprintf(stderr, "there is no network '%s'\n", argv[1]);
  return Usage();
}

}  // namespace
}  // namespace pipedream

int main(int argc, char** argv) { return pipedream::Main(argc, argv); }
