// Where a stage's memory lives. Narrow on purpose: it knows no operator. The CPU is the only device
// built in; others come as plugins with this interface.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace pipedream {

class Device;

// Owned device memory, 64-byte aligned, zero-filled when allocated. Returns its bytes to the
// device's account.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  friend class CpuDevice;
  DeviceBuffer(Device* device, std::byte* data, size_t size)
      : device_(device), data_(data), size_(size) {}
  void Free();
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Thread-safe. Outlives its buffers.
class Device {
 public:
  virtual ~Device() = default;
  // "cpu: AMD EPYC, 1 thread, oneDNN 2.6.3"; devices of equal kind share profiles.
  virtual const std::string& kind() const = 0;
  // kResourceExhausted names `purpose`, the request, what is in use and the limit.
  virtual absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, std::string_view purpose) = 0;
  virtual int64_t limit_bytes() const = 0;
  virtual int64_t allocated_bytes() const = 0;

 protected:
  friend class DeviceBuffer;
  virtual void Free(std::byte* data, size_t bytes) = 0;
};

// `limit_bytes` 0: what the machine (or its control group) has.
std::unique_ptr<Device> MakeCpuDevice(int threads, int64_t limit_bytes);

}  // namespace pipedream
