// Strict reading of YAML maps: every key is known, given once, and of the right kind. Not for
// headers, since yaml.h is slow to compile.
#pragma once

#include <absl/status/status.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

// The first fault found while reading one file.
class YamlFaults {
 public:
  explicit YamlFaults(std::string_view file) : file_(file) {}
  // Keeps the first: "job.yaml:3: optimizer.lr: <message>".
  void Add(const YAML::Node& at, const std::string& path, const std::string& message);
  const absl::Status& status() const { return status_; }

 private:
  const std::string file_;
  absl::Status status_;
};

// Reads one map. Each Read leaves `out` alone if the key is absent. Finish reports keys that no
// Read asked for. Borrows the faults.
class YamlMap {
 public:
  YamlMap(const YAML::Node& node, std::string path, YamlFaults* faults);

  void Read(const char* key, std::string* out);
  void Read(const char* key, double* out);
  void Read(const char* key, bool* out);
  void Read(const char* key, int64_t* out);
  void Read(const char* key, uint64_t* out);
  void Read(const char* key, int* out);
  void Read(const char* key, std::vector<std::string>* out);  // a single string is a list of one
  void Read(const char* key, std::vector<int>* out);
  void ReadSeconds(const char* key, double* out);  // "90", "10m"
  void ReadBytes(const char* key, int64_t* out);   // "16e9", "16GiB"
  void ReadBytes(const char* key, double* out);    // per second
  // The value of a key that needs its own reading; undefined node if absent.
  YAML::Node Take(const char* key);
  void Finish();

  std::string Path(std::string_view key) const;

 private:
  const YAML::Node node_;
  const std::string path_;
  YamlFaults* const faults_;
  std::vector<std::string> known_;
};

// A scalar's text; adds a fault and returns false for lists and maps.
bool YamlText(const YAML::Node& node, const std::string& path, YamlFaults* faults,
              std::string* out);

}  // namespace pipedream
