#include "common/graph/attributes.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace pipedream {
namespace {

template <typename T>
const T* Find(const std::map<std::string, Attributes::Value, std::less<>>& values,
              std::string_view name) {
  auto it = values.find(name);
  if (it == values.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  PIPEDREAM_CHECK(value != nullptr);
  return value;
}

}  // namespace

int64_t Attributes::Int(std::string_view name, int64_t fallback) const {
  const int64_t* value = Find<int64_t>(values_, name);
  return value ? *value : fallback;
}

double Attributes::Float(std::string_view name, double fallback) const {
  const double* value = Find<double>(values_, name);
  return value ? *value : fallback;
}

std::string Attributes::String(std::string_view name, std::string_view fallback) const {
  const std::string* value = Find<std::string>(values_, name);
  return value ? *value : std::string(fallback);
}

std::vector<int64_t> Attributes::Ints(std::string_view name) const {
  const std::vector<int64_t>* value = Find<std::vector<int64_t>>(values_, name);
  return value ? *value : std::vector<int64_t>();
}

std::string Attributes::ToString() const {
  std::string out;
  for (const auto& [name, value] : values_) {
    if (!out.empty()) out += ' ';
    out += name + '=';
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                        std::is_same_v<T, std::vector<double>>) {
            out += fmt::format("[{}]", fmt::join(v, ", "));
          } else {
            out += fmt::format("{}", v);
          }
        },
        value);
  }
  return out;
}

}  // namespace pipedream
