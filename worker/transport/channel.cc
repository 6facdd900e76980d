#include "worker/transport/channel.h"

#include <fmt/format.h>

namespace pipedream {
namespace {

const char* KindName(MessageKind kind) {
  switch (kind) {
    case MessageKind::kActivation:
      return "activation";
    case MessageKind::kGradient:
      return "gradient";
    case MessageKind::kEvaluation:
      return "evaluation";
    case MessageKind::kCollective:
      return "collective";
    case MessageKind::kProbe:
      return "probe";
  }
  return nullptr;
}

}  // namespace

std::string ToString(const MessageKey& key) {
  const char* name = KindName(key.kind);
  if (name == nullptr) {
    return fmt::format("message of unknown kind {} number {}", static_cast<int>(key.kind),
                       key.index);
  }
  const int64_t index = key.index & ((int64_t{1} << MessageKey::kIndexBits) - 1);
  if (key.round() <= 0) return fmt::format("{} {}", name, key.index);
  return fmt::format("{} {} (sent again, {})", name, index, key.round());
}

}  // namespace pipedream
