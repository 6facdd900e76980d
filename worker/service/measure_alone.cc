#include "worker/service/measure_alone.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace pipedream {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
constexpr Duration kPollPeriod = std::chrono::milliseconds(10);

// Held by whoever measures; the system gives it back when its process ends.
class HostLock {
 public:
  explicit HostLock(const std::function<bool()>& cancelled) {
    std::error_code error;
    const auto folder = std::filesystem::temp_directory_path(error);
    if (error) return;
    const std::string path = (folder / "pipedream-speed.lock").string();
    // In shared folders only its owner may open a file to be made.
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd_ < 0) fd_ = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) return;
    const Duration deadline = SystemClock()->Now() + kPatience;
    while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (cancelled()) return;
      if (SystemClock()->Now() > deadline) {
        LogWarning("another worker of this host has been measuring its speed for long");
        return;
      }
      std::this_thread::sleep_for(kPollPeriod);
    }
  }
  ~HostLock() {
    if (fd_ >= 0) close(fd_);
  }
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace

absl::StatusOr<double> MeasureSpeedAlone(const KernelBackend& backend, Device* device,
                                         const SpeedOptions& options) {
  const HostLock lock(options.cancelled);
  return MeasureSpeed(backend, device, options);
}

}  // namespace pipedream
