#include "common/base/clock.h"

namespace pipedream {
namespace {

class RealClock : public Clock {
 public:
  Duration Now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  int64_t UnixMicros() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

Clock* SystemClock() {
  static RealClock clock;
  return &clock;
}

}  // namespace pipedream
