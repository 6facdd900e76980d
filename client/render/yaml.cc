#include "client/render/yaml.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace pipedream {
namespace {

using Json = nlohmann::ordered_json;

// Words and paths that no YAML reader takes for a number, a boolean, null or syntax.
bool IsPlain(const std::string& text) {
  if (text.empty() || !std::isalpha(static_cast<unsigned char>(text[0]))) return false;
  for (char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_-./").find(c) == std::string_view::npos) {
      return false;
    }
  }
  std::string lower;
  for (char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word :
       {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}) {
    if (lower == word) return false;
  }
  return true;
}

std::string Scalar(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (IsPlain(text)) return text;
  }
  return value.dump();  // a JSON string is a double-quoted YAML string
}

bool Nested(const Json& value) { return value.is_structured() && !value.empty(); }

void Write(const Json& value, int indent, std::string* out) {
  bool first = true;  // its indentation is already there after "- "
  auto margin = [&] {
    if (!first || indent == 0) out->append(indent, ' ');
    first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      margin();
      *out += key + ":";
      if (Nested(item)) {
        *out += "\n";
        out->append(item.is_array() ? indent : indent + 2, ' ');
        Write(item, item.is_array() ? indent : indent + 2, out);
      } else {
        *out += " " + Scalar(item) + "\n";
      }
    }
  } else {
    for (const Json& item : value) {
      margin();
      *out += "- ";
      if (Nested(item)) {
        Write(item, indent + 2, out);
      } else {
        *out += Scalar(item) + "\n";
      }
    }
  }
}

}  // namespace

std::string JsonToYaml(std::string_view json) {
  Json value = Json::parse(json);
  if (!Nested(value)) return Scalar(value) + "\n";
  std::string out;
  Write(value, 0, &out);
  return out;
}

}  // namespace pipedream
