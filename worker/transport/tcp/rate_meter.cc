#include "worker/transport/tcp/rate_meter.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace pipedream {

double RateMeter::Read(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return rate_;
  if (size < offsetof(tcp_info, tcpi_sndbuf_limited)) return rate_;  // an older kernel
  const bool receiver_limited = info.tcpi_rwnd_limited != receiver_limited_us_;
  receiver_limited_us_ = info.tcpi_rwnd_limited;
  if (!receiver_limited && info.tcpi_delivery_rate > 0)
    rate_ = static_cast<double>(info.tcpi_delivery_rate);
  return rate_;
}

}  // namespace pipedream
