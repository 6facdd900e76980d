// The memory of a shm channel: an anonymous file mapped by both ends. It has no name in any file
// system, so it is gone with the last process that maps it. The receiver makes it and passes the
// descriptor; the sender maps it.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "worker/transport/channel.h"

namespace pipedream {

// Counts messages since the channel was opened. Each word is written by one side; the other side
// checks what it reads, since the peer may be wrong. The sequence words only wake sleepers.
struct ShmHeader {
  uint64_t magic;
  uint64_t slots;
  uint64_t max_message_bytes;
  alignas(64) std::atomic<uint64_t> committed;  // by the sender
  std::atomic<uint32_t> committed_sequence;
  alignas(64) std::atomic<uint64_t> released;  // by the receiver
  std::atomic<uint32_t> released_sequence;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct ShmSlot {
  int64_t index;
  uint64_t bytes;
  uint8_t kind;
};

class ShmRegion {
 public:
  // Allocates the memory and seals its size. kResourceExhausted, or kUnimplemented where the kernel
  // has no sealed memory files.
  static absl::StatusOr<std::unique_ptr<ShmRegion>> Create(const std::string& name, size_t slots,
                                                           size_t max_message_bytes);
  // Maps what the peer made. kUnavailable unless `file` is a sealed memory file of exactly the size
  // and header that these numbers ask for.
  static absl::StatusOr<std::unique_ptr<ShmRegion>> Map(UniqueFd file, const std::string& name,
                                                        size_t slots, size_t max_message_bytes);
  ~ShmRegion();
  ShmRegion(const ShmRegion&) = delete;
  ShmRegion& operator=(const ShmRegion&) = delete;

  ShmHeader& header() const { return *reinterpret_cast<ShmHeader*>(memory_); }
  ShmSlot& slot(uint64_t number) const;
  std::byte* data(uint64_t number) const;
  int fd() const { return file_.get(); }
  // The mapping lives on without the descriptor; call once nobody needs it any more.
  void CloseFile() { file_.Reset(); }
  size_t slots() const { return slots_; }
  size_t max_message_bytes() const { return max_message_bytes_; }
  const std::string& name() const { return name_; }

 private:
  ShmRegion(UniqueFd file, const std::string& name, size_t slots, size_t max_message_bytes)
      : file_(std::move(file)), name_(name), slots_(slots), max_message_bytes_(max_message_bytes) {}
  size_t DataOffset() const;
  size_t TotalBytes() const;
  absl::Status MapMemory();

  UniqueFd file_;
  const std::string name_;
  const size_t slots_;
  const size_t max_message_bytes_;
  std::byte* memory_ = nullptr;
};

// Sleeps while `word` holds `seen`, at most `timeout`; may return early. Works across processes.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Duration timeout);
// Changes `word` and wakes all who sleep on it.
void FutexNotify(std::atomic<uint32_t>& word);

}  // namespace pipedream
