// make-model NETWORK OUT.onnx [SEED]: writes one of the example networks with initial weights.
// make-model NETWORK --data DIR SAMPLES [SEED]: writes samples of its shape (train-x.npy,
// train-y.npy): noise with a faint class pattern, so that a few steps lower the loss.

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/base/random.h"
#include "examples/models/networks.h"

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

bool WriteNpy(const std::string& path, const char* type, const std::vector<int64_t>& shape,
              const void* data, size_t bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                                   type, fmt::join(shape, ", "));
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write("\x93NUMPY\x01\x00", 8);
  const unsigned char size[2] = {static_cast<unsigned char>(header.size() & 0xff),
                                 static_cast<unsigned char>(header.size() >> 8)};
  file.write(reinterpret_cast<const char*>(size), 2);
  file << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  return file.flush().good();
}

bool WriteData(const Network& network, const std::string& dir, int64_t samples, uint64_t seed) {
  mkdir(dir.c_str(), 0755);
  int64_t elements = 1;
  for (int64_t d : network.sample) elements *= d;
  std::vector<float> x(samples * elements);
  std::vector<int64_t> y(samples);
  for (int64_t i = 0; i < samples; ++i) {
    y[i] = Philox(seed, 1, i)[0] % static_cast<uint32_t>(network.classes);
    for (int64_t k = 0; k < elements; ++k)
      x[i * elements + k] = UniformFloat(Philox(seed, 2 + i, k)[0]) +
                            0.5f * UniformFloat(Philox(seed, 1u << 30, y[i] * elements + k)[1]);
  }
  std::vector<int64_t> shape = network.sample;
  shape.insert(shape.begin(), samples);
  return WriteNpy(dir + "/train-x.npy", "<f4", shape, x.data(), x.size() * sizeof(float)) &&
         WriteNpy(dir + "/train-y.npy", "<i8", {samples}, y.data(), y.size() * sizeof(int64_t));
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
    const bool ok = data ? WriteData(network, path, std::atoll(argv[4]), seed)
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
