// The networks of the examples, at the sizes their papers give, with dimensions as in torchvision.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

struct Network {
  std::string_view name;
  std::string_view summary;
  std::vector<int64_t> sample;  // shape of one input
  int64_t classes;
  bool (*write)(const Network& network, uint64_t seed, const std::string& path);
};

const std::vector<Network>& AllNetworks();

}  // namespace pipedream
