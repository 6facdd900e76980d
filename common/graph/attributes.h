// Attributes of a node in canonical form: few value types, read by name, printed in name order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pipedream {

class Attributes {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

  Attributes& Set(std::string_view name, Value value) {
    values_.insert_or_assign(std::string(name), std::move(value));
    return *this;
  }
  bool Has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // `fallback` when absent. REQUIRES: present with that type, or absent (a bug otherwise).
  int64_t Int(std::string_view name, int64_t fallback = 0) const;
  double Float(std::string_view name, double fallback = 0) const;
  std::string String(std::string_view name, std::string_view fallback = "") const;
  std::vector<int64_t> Ints(std::string_view name) const;
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  // "kernel=[3, 3] pads=[1, 1, 1, 1]"
  std::string ToString() const;
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace pipedream
