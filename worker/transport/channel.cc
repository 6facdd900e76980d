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
  return fmt::format("{} {}", name, key.index);
}

}  // namespace pipedream
