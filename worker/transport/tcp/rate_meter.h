// What the kernel says a TCP connection delivers.
#pragma once

#include <cstdint>

namespace pipedream {

// Of one connection's sending side. Not thread-safe.
class RateMeter {
 public:
  // Bytes per second, acknowledged by the peer, in the latest stretch in which the network set the
  // pace: where the sender had too little to send, the kernel keeps the best it has seen; where the
  // receiver was slow to read, the last value stays. 0: nothing is known yet.
  double Read(int socket);

 private:
  double rate_ = 0;
  uint64_t receiver_limited_us_ = 0;
};

}  // namespace pipedream
