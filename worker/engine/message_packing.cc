#include "worker/engine/message_packing.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace pipedream {

CompiledMessage* FindMessage(std::vector<CompiledMessage>& messages, int stage) {
  auto it = std::ranges::find(messages, stage, &CompiledMessage::stage);
  return it == messages.end() ? nullptr : &*it;
}

absl::Status PackMessage(CompiledMessage& message, const Bases& bases, std::byte* out) {
  for (MessageItem& item : message.items) {
    const void* source = bases.Resolve(item.place);
    void* target = out + item.message_offset;
    if (item.reorder == nullptr) {
      std::memcpy(target, source, item.bytes);
    } else {
      PD_RETURN_IF_ERROR(item.reorder->Run({{&source, 1}, {&target, 1}, nullptr, nullptr}));
    }
  }
  return absl::OkStatus();
}

absl::Status UnpackMessage(const CompiledMessage& message, const Bases& bases,
                           std::span<const std::byte> in) {
  if (in.size() < message.bytes)
    return Internal(
        "a message of {} bytes from stage {} where {} were expected: the two stages were cut from "
        "different graphs",
        in.size(), message.stage, message.bytes);
  for (const MessageItem& item : message.items)
    std::memcpy(bases.Resolve(item.place), in.data() + item.message_offset, item.bytes);
  return absl::OkStatus();
}

}  // namespace pipedream
