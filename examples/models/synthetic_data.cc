#include "examples/models/synthetic_data.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <vector>

#include "common/base/random.h"

namespace pipedream {
namespace {

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

}  // namespace

bool WriteSyntheticData(const Network& network, const std::string& folder, int64_t samples,
                        uint64_t seed) {
  mkdir(folder.c_str(), 0755);
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
  return WriteNpy(folder + "/train-x.npy", "<f4", shape, x.data(), x.size() * sizeof(float)) &&
         WriteNpy(folder + "/train-y.npy", "<i8", {samples}, y.data(), y.size() * sizeof(int64_t));
}

}  // namespace pipedream
