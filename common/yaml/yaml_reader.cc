#include "common/yaml/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/nearest_name.h"

namespace pipedream {
namespace {

template <typename T>
bool ParseWhole(const std::string& text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

template <typename T>
void ReadWhole(const YAML::Node& node, const std::string& path, YamlFaults* faults, T* out) {
  std::string text;
  T value{};
  if (!node.IsDefined() || !YamlText(node, path, faults, &text)) return;
  if (!ParseWhole(text, &value)) {
    return faults->Add(node, path,
                       fmt::format("'{}' is not a whole number from {} to {}", text,
                                   std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
  *out = value;
}

}  // namespace

void YamlFaults::Add(const YAML::Node& at, const std::string& path, const std::string& message) {
  if (!status_.ok()) return;
  const int line = at.IsDefined() ? at.Mark().line + 1 : 0;
  status_ = InvalidArgument("{}:{}: {}{}{}", file_, line, path, path.empty() ? "" : ": ", message);
}

bool YamlText(const YAML::Node& node, const std::string& path, YamlFaults* faults,
              std::string* out) {
  if (!node.IsScalar()) {
    faults->Add(node, path,
                node.IsNull() ? "has no value" : "must be a single value, not a list or a map");
    return false;
  }
  *out = node.Scalar();
  return true;
}

YamlMap::YamlMap(const YAML::Node& node, std::string path, YamlFaults* faults)
    : node_(node), path_(std::move(path)), faults_(faults) {
  if (!node_.IsMap()) faults_->Add(node_, path_, "must be a map of keys and values");
}

std::string YamlMap::Path(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

YAML::Node YamlMap::Take(const char* key) {
  known_.push_back(key);
  if (!node_.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
  return node_[key];
}

void YamlMap::Read(const char* key, std::string* out) {
  const YAML::Node node = Take(key);
  if (node.IsDefined()) YamlText(node, Path(key), faults_, out);
}

void YamlMap::Read(const char* key, double* out) {
  const YAML::Node node = Take(key);
  std::string text;
  if (!node.IsDefined() || !YamlText(node, Path(key), faults_, &text)) return;
  double value = 0;
  if (!YAML::convert<double>::decode(node, value))
    return faults_->Add(node, Path(key), fmt::format("'{}' is not a number", text));
  *out = value;
}

void YamlMap::Read(const char* key, bool* out) {
  const YAML::Node node = Take(key);
  std::string text;
  if (!node.IsDefined() || !YamlText(node, Path(key), faults_, &text)) return;
  if (!YAML::convert<bool>::decode(node, *out))
    faults_->Add(node, Path(key), fmt::format("'{}' is neither true nor false", text));
}

void YamlMap::Read(const char* key, int64_t* out) { ReadWhole(Take(key), Path(key), faults_, out); }
void YamlMap::Read(const char* key, uint64_t* out) {
  ReadWhole(Take(key), Path(key), faults_, out);
}
void YamlMap::Read(const char* key, int* out) { ReadWhole(Take(key), Path(key), faults_, out); }

void YamlMap::Read(const char* key, std::vector<std::string>* out) {
  const YAML::Node node = Take(key);
  if (!node.IsDefined()) return;
  std::vector<std::string> items;
  if (!node.IsSequence()) {
    items.emplace_back();
    if (!YamlText(node, Path(key), faults_, &items.back())) return;
  } else {
    for (const YAML::Node& item : node) {
      items.emplace_back();
      if (!YamlText(item, fmt::format("{}[{}]", Path(key), items.size() - 1), faults_,
                    &items.back()))
        return;
    }
  }
  *out = std::move(items);
}

void YamlMap::Read(const char* key, std::vector<int>* out) {
  const YAML::Node node = Take(key);
  if (!node.IsDefined()) return;
  if (!node.IsSequence())
    return faults_->Add(node, Path(key), "must be a list of whole numbers: [3, 2, 1, 0]");
  std::vector<int> items;
  for (const YAML::Node& item : node) {
    items.emplace_back();
    ReadWhole(item, fmt::format("{}[{}]", Path(key), items.size() - 1), faults_, &items.back());
  }
  *out = std::move(items);
}

void YamlMap::ReadSeconds(const char* key, double* out) {
  const YAML::Node node = Take(key);
  std::string text;
  if (!node.IsDefined() || !YamlText(node, Path(key), faults_, &text)) return;
  absl::StatusOr<double> seconds = ParseSeconds(text);
  if (!seconds.ok()) {
    return faults_->Add(node, Path(key),
                        fmt::format("'{}' is not a duration such as 90, 250ms, 10m or 2h", text));
  }
  *out = *seconds;
}

void YamlMap::ReadBytes(const char* key, int64_t* out) {
  const YAML::Node node = Take(key);
  std::string text;
  if (!node.IsDefined() || !YamlText(node, Path(key), faults_, &text)) return;
  const absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return faults_->Add(node, Path(key),
                        fmt::format("'{}' is not a size such as 16e9, 512M or 1.5GiB", text));
  }
  *out = *bytes;
}

void YamlMap::ReadBytes(const char* key, double* out) {
  const YAML::Node node = Take(key);
  double number = 0;
  if (node.IsDefined() && node.IsScalar() && YAML::convert<double>::decode(node, number)) {
    *out = number;
    return;
  }
  int64_t bytes = static_cast<int64_t>(*out);
  ReadBytes(key, &bytes);
  if (node.IsDefined()) *out = static_cast<double>(bytes);
}

void YamlMap::Finish() {
  if (!node_.IsMap()) return;
  std::vector<std::string> seen;
  for (const auto& entry : node_) {
    std::string key;
    if (!YamlText(entry.first, path_, faults_, &key)) return;
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return faults_->Add(entry.first, Path(key), "is given twice");
    seen.push_back(key);
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = NearestName(key, known_);
    return faults_->Add(entry.first, Path(key),
                        fmt::format("unknown key; did you mean '{}'? Known here: {}", nearest,
                                    fmt::join(known_, ", ")));
  }
}

}  // namespace pipedream
