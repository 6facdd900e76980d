#include "worker/transport/local/local_channel.h"

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "worker/transport/slot_ring.h"

namespace pipedream {
namespace {

class LocalSend : public SendChannel {
 public:
  explicit LocalSend(std::shared_ptr<SlotRing> ring) : ring_(std::move(ring)) {}
  ~LocalSend() override { ring_->Close(PeerGone(ring_->name())); }
  absl::StatusOr<std::optional<std::span<std::byte>>> TryAcquire() override {
    return ring_->TryAcquire();
  }
  absl::Status Commit(const MessageKey& key, size_t bytes) override {
    return ring_->Commit(key, bytes);
  }
  bool Wait(Duration timeout) override { return ring_->WaitForSlot(timeout); }
  void Abort(const absl::Status& cause) override { ring_->Abort(cause); }
  size_t max_message_bytes() const override { return ring_->max_message_bytes(); }

 private:
  std::shared_ptr<SlotRing> ring_;
};

class LocalReceive : public ReceiveChannel {
 public:
  explicit LocalReceive(std::shared_ptr<SlotRing> ring) : ring_(std::move(ring)) {}
  ~LocalReceive() override { ring_->Close(PeerGone(ring_->name())); }
  absl::StatusOr<std::optional<std::span<const std::byte>>> TryReceive(
      const MessageKey& key) override {
    return ring_->TryReceive(key);
  }
  std::optional<MessageKey> Peek() override { return ring_->Peek(); }
  void Release() override { ring_->Release(); }
  bool Wait(Duration timeout) override { return ring_->WaitForMessage(timeout); }
  void Abort(const absl::Status& cause) override { ring_->Abort(cause); }
  size_t max_message_bytes() const override { return ring_->max_message_bytes(); }

 private:
  std::shared_ptr<SlotRing> ring_;
};

}  // namespace

absl::StatusOr<LocalChannel> CreateLocalChannel(const std::string& name, size_t slots,
                                                size_t max_message_bytes) {
  PD_ASSIGN_OR_RETURN(std::shared_ptr<SlotRing> ring,
                      SlotRing::Create(name, slots, max_message_bytes));
  LocalChannel channel;
  channel.send = std::make_unique<LocalSend>(ring);
  channel.receive = std::make_unique<LocalReceive>(std::move(ring));
  return channel;
}

LocalChannel MakeLocalChannel(size_t slots, size_t max_message_bytes) {
  auto channel = CreateLocalChannel("local", slots, max_message_bytes);
  PIPEDREAM_CHECK(channel.ok());
  return *std::move(channel);
}

}  // namespace pipedream
