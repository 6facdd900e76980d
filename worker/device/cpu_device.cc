#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/base/status.h"
#include "common/base/units.h"
#include "worker/device/device.h"

namespace pipedream {
namespace {

constexpr size_t kAlignment = 64;

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int64_t MachineMemory() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::ifstream group("/sys/fs/cgroup/memory.max");  // "max" does not parse: no limit
  int64_t group_limit = 0;
  if (group >> group_limit) limit = std::min(limit, group_limit);
  return limit;
}

}  // namespace

class CpuDevice : public Device {
 public:
  CpuDevice(int threads, int64_t limit_bytes)
      : kind_(fmt::format("cpu: {}, {} thread{}", CpuModel(), threads, threads == 1 ? "" : "s")),
        limit_(limit_bytes > 0 ? limit_bytes : MachineMemory()) {}

  const std::string& kind() const override { return kind_; }
  int64_t limit_bytes() const override { return limit_; }
  int64_t allocated_bytes() const override { return allocated_.load(); }

  absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, std::string_view purpose) override {
    size_t size = std::max<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    int64_t before = allocated_.fetch_add(static_cast<int64_t>(size));
    void* data = nullptr;
    if (before + static_cast<int64_t>(size) <= limit_) data = std::aligned_alloc(kAlignment, size);
    if (data == nullptr) {
      allocated_.fetch_sub(static_cast<int64_t>(size));
      return WithReason(
          ResourceExhausted(
              "not enough memory for {}: {} wanted, {} of {} in use; use more stages, "
              "a smaller batch, or raise the worker's --memory",
              purpose, FormatBytes(static_cast<int64_t>(size)), FormatBytes(before),
              FormatBytes(limit_)),
          "OUT_OF_MEMORY");
    }
    std::memset(data, 0, size);
    return DeviceBuffer(this, static_cast<std::byte*>(data), size);
  }

 protected:
  void Free(std::byte* data, size_t bytes) override {
    std::free(data);
    allocated_.fetch_sub(static_cast<int64_t>(bytes));
  }

 private:
  const std::string kind_;
  const int64_t limit_;
  std::atomic<int64_t> allocated_{0};
};

std::unique_ptr<Device> MakeCpuDevice(int threads, int64_t limit_bytes) {
  return std::make_unique<CpuDevice>(threads, limit_bytes);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  device_ = std::exchange(other.device_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

DeviceBuffer::~DeviceBuffer() { Free(); }

void DeviceBuffer::Free() {
  if (device_ != nullptr) device_->Free(data_, size_);
  device_ = nullptr;
}

}  // namespace pipedream
