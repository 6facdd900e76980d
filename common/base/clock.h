// Time comes through a Clock, so that tests own it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace pipedream {

using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; only differences mean something.
  virtual Duration Now() const = 0;
  // Microseconds since 1970, UTC; for what people read and what is stored.
  virtual int64_t UnixMicros() const = 0;
};

// The machine's clock; lives for ever.
Clock* SystemClock();

// Stands still until it is advanced. Thread-safe.
class FakeClock : public Clock {
 public:
  Duration Now() const override { return Duration(now_.load()); }
  int64_t UnixMicros() const override { return 1'700'000'000'000'000 + now_.load() / 1000; }
  void Advance(Duration by) { now_.fetch_add(by.count()); }

 private:
  std::atomic<int64_t> now_{0};
};

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace pipedream
