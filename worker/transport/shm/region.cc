#include "worker/transport/shm/region.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "common/base/status.h"
#include "worker/transport/slot_ring.h"

namespace pipedream {
namespace {

constexpr uint64_t kRegionMagic = 0x31'6d'68'73'2d'64'70'70;  // "ppd-shm1"
constexpr size_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
static_assert(sizeof(ShmHeader) <= kPage);

}  // namespace

size_t ShmRegion::DataOffset() const {
  size_t bytes = sizeof(ShmHeader) + slots_ * sizeof(ShmSlot);
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t ShmRegion::TotalBytes() const {
  size_t bytes = DataOffset() + slots_ * SlotStride(max_message_bytes_);
  return (bytes + kPage - 1) / kPage * kPage;
}

ShmSlot& ShmRegion::slot(uint64_t number) const {
  return reinterpret_cast<ShmSlot*>(memory_ + sizeof(ShmHeader))[number % slots_];
}

std::byte* ShmRegion::data(uint64_t number) const {
  return memory_ + DataOffset() + (number % slots_) * SlotStride(max_message_bytes_);
}

absl::Status ShmRegion::MapMemory() {
  void* memory = mmap(nullptr, TotalBytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted("channel {}: cannot map {} bytes of shared memory: {}", name_,
                             TotalBytes(), std::strerror(errno));
  }
  memory_ = static_cast<std::byte*>(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ShmRegion>> ShmRegion::Create(const std::string& name, size_t slots,
                                                             size_t max_message_bytes) {
  PD_RETURN_IF_ERROR(CheckSlotSizes(name, slots, max_message_bytes));
  UniqueFd file(memfd_create("pipedream-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return Unimplemented("memfd_create: {}", std::strerror(errno));
  std::unique_ptr<ShmRegion> region(new ShmRegion(std::move(file), name, slots, max_message_bytes));
  off_t total = static_cast<off_t>(region->TotalBytes());
  if (ftruncate(region->fd(), total) != 0) {
    return ResourceExhausted("channel {}: shared memory of {} bytes: {}", name, total,
                             std::strerror(errno));
  }
  // Takes the pages now: a later lack of memory would be a signal, not an error.
  if (fallocate(region->fd(), 0, 0, total) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    return ResourceExhausted("channel {}: shared memory of {} bytes: {}", name, total,
                             std::strerror(errno));
  }
  if (fcntl(region->fd(), F_ADD_SEALS, kSeals) != 0) {
    return Unimplemented("cannot seal shared memory: {}", std::strerror(errno));
  }
  PD_RETURN_IF_ERROR(region->MapMemory());
  ShmHeader* header = new (region->memory_) ShmHeader{};
  header->magic = kRegionMagic;
  header->slots = slots;
  header->max_message_bytes = max_message_bytes;
  return region;
}

absl::StatusOr<std::unique_ptr<ShmRegion>> ShmRegion::Map(UniqueFd file, const std::string& name,
                                                          size_t slots, size_t max_message_bytes) {
  PD_RETURN_IF_ERROR(CheckSlotSizes(name, slots, max_message_bytes));
  std::unique_ptr<ShmRegion> region(new ShmRegion(std::move(file), name, slots, max_message_bytes));
  struct stat info {};
  if (fstat(region->fd(), &info) != 0) {
    return Unavailable("channel {}: shared memory: {}", name, std::strerror(errno));
  }
  if (info.st_size != static_cast<off_t>(region->TotalBytes())) {
    return Unavailable("channel {}: the peer's shared memory has {} bytes; expected {}", name,
                       info.st_size, region->TotalBytes());
  }
  // Unsealed memory could be cut short under us, and the next access would be a signal.
  int seals = fcntl(region->fd(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Unavailable("channel {}: the peer's shared memory is not sealed", name);
  }
  PD_RETURN_IF_ERROR(region->MapMemory());
  const ShmHeader& header = region->header();
  if (header.magic != kRegionMagic || header.slots != slots ||
      header.max_message_bytes != max_message_bytes) {
    return Unavailable("channel {}: the peer's shared memory has another layout", name);
  }
  return region;
}

ShmRegion::~ShmRegion() {
  if (memory_ != nullptr) munmap(memory_, TotalBytes());
}

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Duration timeout) {
  constexpr Duration kLongest = std::chrono::hours(1);
  timeout = std::clamp(timeout, Duration::zero(), kLongest);
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
  limit.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void FutexNotify(std::atomic<uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace pipedream
