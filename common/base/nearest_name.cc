#include "common/base/nearest_name.h"

#include <algorithm>

namespace pipedream {

int EditDistance(std::string_view a, std::string_view b) {
  const size_t n = a.size(), m = b.size();
  std::vector<std::vector<int>> d(n + 1, std::vector<int>(m + 1));
  for (size_t i = 0; i <= n; ++i) {
    for (size_t j = 0; j <= m; ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int>(i + j);
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[n][m];
}

std::string NearestName(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 100;  // what is longer is no typing error
  if (known.empty() || word.size() > kLongest) return "";
  return *std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return EditDistance(word, a) < EditDistance(word, b);
  });
}

}  // namespace pipedream
